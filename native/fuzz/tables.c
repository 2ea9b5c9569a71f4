/*
** What the programs in fuzz/ that ask a database share.
*/
#include "tables.h"

#include <stdlib.h>
#include <string.h>

#define MOST_MEMORY (64 << 20)
#define MOST_FOUND 10000

int sqlite3_memdb0_init(sqlite3 *db, char **error, const void *api);

static const char *const MADE =
    "PRAGMA writable_schema = ON;"
    "INSERT INTO sqlite_schema VALUES ('table', 't', 't', 0, 'CREATE VIRTUAL TABLE t USING vec0("
    "id INTEGER PRIMARY KEY, scope_id INTEGER, said_key INTEGER, axis TEXT, v INT8[24] distance_metric=cosine, "
    "chunk_size=16)');"
    "PRAGMA writable_schema = OFF;"
    "CREATE TABLE t_chunks (chunk_id INTEGER PRIMARY KEY, size, validity, rowids);"
    "CREATE TABLE t_rowids (rowid INTEGER PRIMARY KEY, id, chunk_id, chunk_offset);"
    "CREATE TABLE t_vector_chunks00 (rowid PRIMARY KEY, vectors);"
    "CREATE TABLE t_metadatachunks00 (rowid PRIMARY KEY, data);"
    "CREATE TABLE t_metadatachunks01 (rowid PRIMARY KEY, data);"
    "CREATE TABLE t_metadatachunks02 (rowid PRIMARY KEY, data);"
    "CREATE TABLE t_code (code_id INTEGER PRIMARY KEY, codes);";

void must(int good) {
  if (!good) abort();
}

/* Each page of the cache has its own memory, so that a read behind it is found. */
static void configure(void) {
  must(sqlite3_config(SQLITE_CONFIG_PAGECACHE, 0, 0, 0) == SQLITE_OK);
  must(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
  must(sqlite3_initialize() == SQLITE_OK);
  sqlite3_hard_heap_limit64(MOST_MEMORY);
}

static sqlite3 *open_empty(void) {
  sqlite3 *db = 0;
  must(sqlite3_open(":memory:", &db) == SQLITE_OK && sqlite3_memdb0_init(db, 0, 0) == SQLITE_OK);
  return db;
}

sqlite3 *open_copy(void (*make)(sqlite3 *db)) {
  static uint8_t *made;
  static sqlite3_int64 size;
  if (made == 0) {
    configure();
    sqlite3 *first = open_empty();
    make(first);
    made = sqlite3_serialize(first, "main", &size, 0);
    must(made != 0 && sqlite3_close(first) == SQLITE_OK);
  }
  sqlite3 *db = open_empty();
  uint8_t *copy = sqlite3_malloc64((sqlite3_uint64)size);
  must(copy != 0);
  memcpy(copy, made, (size_t)size);
  must(sqlite3_deserialize(db, "main", copy, size, size,
                           SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) == SQLITE_OK);
  return db;
}

void run(sqlite3 *db, const char *sql, const void *blob, int n, sqlite3_int64 row, sqlite3_int64 number) {
  sqlite3_stmt *statement = 0;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, 0) != SQLITE_OK) return;
  sqlite3_bind_blob(statement, 1, blob, n, SQLITE_TRANSIENT);
  if (sqlite3_bind_parameter_count(statement) > 1) sqlite3_bind_int64(statement, 2, row);
  if (sqlite3_bind_parameter_count(statement) > 2) sqlite3_bind_int64(statement, 3, number);
  sqlite3_step(statement);
  sqlite3_finalize(statement);
}

void search_to_end(sqlite3_stmt *statement) {
  int rc = SQLITE_ROW;
  for (int i = 0; i < MOST_FOUND && rc == SQLITE_ROW; i++) {
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) sqlite3_column_double(statement, 1);
  }
  rc &= 0xff;
  must(rc == SQLITE_ROW || rc == SQLITE_DONE || rc == SQLITE_ERROR || rc == SQLITE_CORRUPT);
  sqlite3_finalize(statement);
}

void make_vectors(sqlite3 *db) {
  int8_t vectors[SLOTS * DIMS];
  uint8_t axes[SLOTS * 16] = {0}, codes[SLOTS * DIMS / 8];
  sqlite3_int64 rowids[SLOTS], numbers[SLOTS];
  must(sqlite3_exec(db, MADE, 0, 0, 0) == SQLITE_OK);
  for (int chunk = 1; chunk <= CHUNKS; chunk++) {
    uint8_t validity[SLOTS / 8] = {0xff, (uint8_t)(chunk == CHUNKS ? 0x03 : 0xff)};
    for (int i = 0; i < SLOTS * DIMS; i++) vectors[i] = (int8_t)((i * 37 + chunk * 101) % 255 - 127);
    for (int i = 0; i < SLOTS * DIMS / 8; i++) codes[i] = (uint8_t)(i * 91 + chunk);
    for (int i = 0; i < SLOTS; i++) {
      rowids[i] = (chunk - 1) * SLOTS + i + 1;
      numbers[i] = i % 3;
      memcpy(axes + i * 16, "\14\0\0\0entity_names", 16);
      char *sql = sqlite3_mprintf("INSERT INTO t_rowids VALUES (%lld, NULL, %d, %d)", rowids[i], chunk, i);
      run(db, sql, 0, 0, 0, 0);
      sqlite3_free(sql);
    }
    run(db, "INSERT INTO t_chunks VALUES (?2, 16, ?1, NULL)", validity, SLOTS / 8, chunk, 0);
    run(db, "UPDATE t_chunks SET rowids = ?1 WHERE chunk_id = ?2", rowids, sizeof(rowids), chunk, 0);
    run(db, "INSERT INTO t_vector_chunks00 (_rowid_, rowid, vectors) VALUES (?2, ?2, ?1)", vectors, sizeof(vectors), chunk, 0);
    run(db, "INSERT INTO t_metadatachunks00 (_rowid_, rowid, data) VALUES (?2, ?2, ?1)", numbers, sizeof(numbers), chunk, 0);
    run(db, "INSERT INTO t_metadatachunks01 (_rowid_, rowid, data) VALUES (?2, ?2, ?1)", rowids, sizeof(rowids), chunk, 0);
    run(db, "INSERT INTO t_metadatachunks02 (_rowid_, rowid, data) VALUES (?2, ?2, ?1)", axes, sizeof(axes), chunk, 0);
    run(db, "INSERT INTO t_code VALUES (?2 * 4096, ?1)", codes, sizeof(codes), chunk, 0);
  }
}

