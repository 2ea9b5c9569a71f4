/*
** Fuzzing vector_top(): an input damages the shadow tables of a small table of vectors, which is then searched in every
** way. Whatever is found, nothing may be read that is not there.
**
** An input is a series of changes: one byte picks a statement, one a row, one how many bytes of what follows are its
** value. Linked with SQLite itself (SQLITE_CORE); vec0 is not needed, since its tables are made by hand.
**
** With FUZZ_ALONE it has a main() that makes inputs from a fixed seed: fuzz_scan [rounds].
*/
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

int sqlite3_memdb0_init(sqlite3 *db, char **error, const void *api);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DIMS 24
#define SLOTS 16
#define CHUNKS 5

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

static const char *const CHANGES[] = {
    "UPDATE t_chunks SET validity = ?1 WHERE chunk_id = ?2",
    "UPDATE t_chunks SET rowids = ?1 WHERE chunk_id = ?2",
    "UPDATE t_chunks SET size = ?3 WHERE chunk_id = ?2",
    "UPDATE OR IGNORE t_chunks SET chunk_id = ?3 WHERE chunk_id = ?2",
    "DELETE FROM t_chunks WHERE chunk_id = ?2",
    "UPDATE t_vector_chunks00 SET vectors = ?1 WHERE _rowid_ = ?2",
    "UPDATE t_vector_chunks00 SET vectors = zeroblob(?3 % 100000) WHERE _rowid_ = ?2",
    "DELETE FROM t_vector_chunks00 WHERE _rowid_ = ?2",
    "UPDATE t_metadatachunks00 SET data = ?1 WHERE _rowid_ = ?2",
    "UPDATE t_metadatachunks01 SET data = ?3 WHERE _rowid_ = ?2",
    "UPDATE t_metadatachunks02 SET data = ?1 || substr(data, 1 + length(?1)) WHERE _rowid_ = ?2",
    "UPDATE t_metadatachunks02 SET data = CAST(?1 || substr(data, 1 + length(?1)) AS BLOB) WHERE _rowid_ = ?2",
    "UPDATE t_rowids SET chunk_id = ?3 WHERE rowid % 6 = ?2",
    "UPDATE t_rowids SET chunk_offset = ?3 WHERE rowid % 6 = ?2",
    "UPDATE t_code SET codes = ?1 WHERE code_id = ?2 * 4096",
    "UPDATE OR IGNORE t_code SET code_id = ?3 WHERE code_id = ?2 * 4096",
    "UPDATE t_code SET codes = CAST(?1 || substr(codes, 1 + length(?1)) AS BLOB) WHERE code_id = ?2 * 4096",
    "UPDATE t_vector_chunks00 SET vectors = CAST(?1 || substr(vectors, 1 + length(?1)) AS BLOB) WHERE _rowid_ = ?2",
    "UPDATE sqlite_schema SET sql = substr(sql, 1, 24 + ?2) || CAST(?1 AS TEXT) WHERE name = 't'",
    "UPDATE sqlite_schema SET sql = replace(sql, '24', abs(?3 % 10000)) WHERE name = 't'",
    "UPDATE sqlite_schema SET sql = replace(sql, '16', abs(?3 % 10000)) WHERE name = 't'",
};
#define CHANGE_COUNT (sizeof(CHANGES) / sizeof(CHANGES[0]))

static const char *const SEARCHES[] = {
    "SELECT id, distance FROM vector_top('t', ?1, 7, NULL, NULL, NULL, NULL, NULL, NULL, 'exact')",
    "SELECT id, distance FROM vector_top('t', ?1, 7, NULL, NULL, NULL, NULL, NULL, NULL, 'exact scalar')",
    "SELECT id, distance FROM vector_top('t', ?1, 7, NULL, NULL, NULL, NULL, NULL, NULL, 'coded')",
    "SELECT id, distance FROM vector_top('t', ?1, 7, NULL, NULL, NULL, NULL, NULL, 0.9, 'coded scalar')",
    "SELECT id, distance FROM vector_top('t', ?1, 100, '[1, 2]', 3, 40, NULL, 'entity', NULL, 'coded avx2')",
    "SELECT id, distance FROM vector_top('t', ?1, 5, NULL, NULL, NULL, '[1, 9, 20, 33]')",
    "SELECT id, distance FROM vector_top('t', ?1, 5, '[0]', 0, 99, '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]', 'entity')",
};
#define SEARCH_COUNT (sizeof(SEARCHES) / sizeof(SEARCHES[0]))

static void must(int good) {
  if (!good) abort();
}

static void run(sqlite3 *db, const char *sql, const void *blob, int n, sqlite3_int64 row, sqlite3_int64 number) {
  sqlite3_stmt *statement = 0;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, 0) != SQLITE_OK) return;
  sqlite3_bind_blob(statement, 1, blob, n, SQLITE_TRANSIENT);
  if (sqlite3_bind_parameter_count(statement) > 1) sqlite3_bind_int64(statement, 2, row);
  if (sqlite3_bind_parameter_count(statement) > 2) sqlite3_bind_int64(statement, 3, number);
  for (int i = 0; i < 1000 && sqlite3_step(statement) == SQLITE_ROW; i++) sqlite3_column_double(statement, 1);
  sqlite3_finalize(statement);
}

static void fill(sqlite3 *db) {
  int8_t vectors[SLOTS * DIMS];
  uint8_t axes[SLOTS * 16] = {0}, codes[SLOTS * DIMS / 8];
  sqlite3_int64 rowids[SLOTS], numbers[SLOTS];
  for (int chunk = 1; chunk <= CHUNKS; chunk++) {
    uint8_t validity[SLOTS / 8] = {0xff, (uint8_t)(chunk == CHUNKS ? 0x03 : 0xff)};
    for (int i = 0; i < SLOTS * DIMS; i++) vectors[i] = (int8_t)((i * 37 + chunk * 101) % 255 - 127);
    for (int i = 0; i < SLOTS * DIMS / 8; i++) codes[i] = (uint8_t)(i * 91 + chunk);
    for (int i = 0; i < SLOTS; i++) {
      rowids[i] = (chunk - 1) * SLOTS + i + 1;
      numbers[i] = i % 3;
      memcpy(axes + i * 16, "\6\0\0\0entity", 10);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t query[DIMS];
  sqlite3 *db = 0;
  must(sqlite3_open(":memory:", &db) == SQLITE_OK && sqlite3_memdb0_init(db, 0, 0) == SQLITE_OK);
  must(sqlite3_exec(db, MADE, 0, 0, 0) == SQLITE_OK);
  fill(db);
  sqlite3_exec(db, "PRAGMA writable_schema = ON", 0, 0, 0);
  while (size >= 3) {
    const char *sql = CHANGES[data[0] % CHANGE_COUNT];
    sqlite3_int64 row = data[1] % (CHUNKS + 2), number = 0;
    size_t n = data[2];
    data += 3, size -= 3;
    if (n > size) n = size;
    memcpy(&number, data, n < 8 ? n : 8);
    run(db, sql, data, (int)n, row, number);
    data += n, size -= n;
  }
  for (int i = 0; i < DIMS; i++) query[i] = (uint8_t)(i * 29 + 5);
  for (size_t i = 0; i < SEARCH_COUNT; i++) run(db, SEARCHES[i], query, DIMS, 0, 0);
  sqlite3_close(db);
  return 0;
}

#ifdef FUZZ_ALONE
static uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? strtol(argv[1], 0, 10) : 2000;
  uint32_t state = 20240501;
  for (long round = 0; round < rounds; round++) {
    size_t size = next_random(&state) % 120;
    uint8_t *data = malloc(size + 1);
    must(data != 0);
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(next_random(&state) >> 24);
    if (size > 2 && round % 2) data[2] %= 9; /* small numbers too */
    LLVMFuzzerTestOneInput(data, size);
    free(data);
  }
  printf("%ld rounds\n", rounds);
  return 0;
}
#endif
