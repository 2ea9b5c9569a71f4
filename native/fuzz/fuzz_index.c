/*
** Fuzzing term_top(): an input is the shadow rows of an FTS5 table with five columns, which is then asked twice, as a
** connection remembers some of what it has read.
**
** A row is one byte with its table, two with its key, two with its size, and its bytes:
**   0 structure   1 averages   2 leaf (segment, page)   3 tombstones (segment, page)   4 X_docsize (id)
**   5 X_idx (segment, page)    6 X_length (block)       7 the same, filled up with zeros to the size of a block
** tests/native/seeds.py writes those of real tables so.
*/
#include <string.h>

#include "tables.h"

#define HEAD 5
#define BLOCK_BYTES 4016
#define STAMP_BLOCK 255 /* block -1 */

enum { STRUCTURE, AVERAGES, LEAF, TOMBSTONES, LENGTH_OF_ROW, TERM, LENGTHS, FULL_LENGTHS, KINDS };

static const char *const ROWS[KINDS] = {
    "REPLACE INTO t_data (block, id) VALUES (?1, 10 + 0 * ?2)",
    "REPLACE INTO t_data (block, id) VALUES (?1, 1 + 0 * ?2)",
    "REPLACE INTO t_data (block, id) VALUES (?1, (?2 << 37) + ?3)",
    "REPLACE INTO t_data (block, id) VALUES (?1, (?2 + 65536 << 37) + ?3)",
    "REPLACE INTO t_docsize (sz, id) VALUES (?1, ?2 * 256 + ?3)",
    "REPLACE INTO t_idx (term, segid, pgno) VALUES (?1, ?2, ?3)",
    "REPLACE INTO t_length (lengths, block) VALUES (?1, ?3)",
    "REPLACE INTO t_length (lengths, block) VALUES (?1, ?3)",
};

static const char *const SEARCHES[] = {
    "SELECT id, score FROM term_top('t', '[\"always\", \"w3\", \"w150\"]')",
    "SELECT id, score FROM term_top('t', '[\"w1\", \"w9\", \"always\"]', '[0.5]', '[\"own\", \"question\"]')",
    "SELECT id, score FROM term_top('t', '[\"w2\", \"always\"]', NULL, '[\"after\"]')",
};
#define SEARCH_COUNT (sizeof(SEARCHES) / sizeof(SEARCHES[0]))

static void make_index(sqlite3 *db) {
  static const char *const kinds[] = {", contentless_delete = 1", ""}; /* an older SQLite has not the first one */
  int rc = SQLITE_ERROR;
  for (int i = 0; i < 2 && rc != SQLITE_OK; i++) {
    char *sql = sqlite3_mprintf(
        "CREATE VIRTUAL TABLE t USING fts5(own, question, prompt, context, after, content = ''%s)", kinds[i]);
    rc = sqlite3_exec(db, sql, 0, 0, 0);
    sqlite3_free(sql);
  }
  must(rc == SQLITE_OK);
  must(sqlite3_exec(db, "CREATE TABLE t_length (block INTEGER PRIMARY KEY, lengths BLOB)", 0, 0, 0) == SQLITE_OK);
}

static void put_rows(sqlite3 *db, const uint8_t *data, size_t size) {
  static uint8_t filled[BLOCK_BYTES];
  sqlite3_exec(db, "BEGIN", 0, 0, 0);
  while (size >= HEAD) {
    int kind = data[0] % KINDS;
    sqlite3_int64 first = data[1], second = data[2];
    size_t n = (size_t)data[3] << 8 | data[4];
    data += HEAD, size -= HEAD;
    if (n > size) n = size;
    const uint8_t *value = data;
    int bytes = (int)n;
    if (kind == FULL_LENGTHS) {
      memset(filled, 0, BLOCK_BYTES);
      memcpy(filled, data, n < BLOCK_BYTES ? n : BLOCK_BYTES);
      value = filled;
      bytes = BLOCK_BYTES;
    }
    if (kind >= LENGTHS && second == STAMP_BLOCK) second = -1;
    run(db, ROWS[kind], value, bytes, first, second);
    data += n, size -= n;
  }
  sqlite3_exec(db, "COMMIT", 0, 0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sqlite3 *db = open_copy(make_index);
  /* Now FTS5 knows the structure of the empty index, and an older one does not stumble over records that it cannot read. */
  run(db, "SELECT rowid FROM t WHERE t MATCH 'none'", 0, 0, 0, 0);
  put_rows(db, data, size);
  for (size_t i = 0; i < 2 * SEARCH_COUNT; i++) {
    sqlite3_stmt *statement = 0;
    if (sqlite3_prepare_v2(db, SEARCHES[i % SEARCH_COUNT], -1, &statement, 0) == SQLITE_OK) search_to_end(statement);
  }
  must(sqlite3_close(db) == SQLITE_OK);
  return 0;
}
