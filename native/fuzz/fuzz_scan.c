/*
** Fuzzing vector_top(): an input damages the shadow tables of a small table of vectors, which is then searched in every
** way. Whatever is found, nothing may be read that is not there.
**
** An input is a series of changes: one byte picks a statement, one a row, one how many bytes of what follows are its
** value.
*/
#include <string.h>

#include "tables.h"

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
    "SELECT id, distance FROM vector_top('t', ?1, 100, '[1, 2]', 3, 40, NULL, 'entity_names', NULL, 'coded avx2')",
    "SELECT id, distance FROM vector_top('t', ?1, 5, NULL, NULL, NULL, '[1, 9, 20, 33]')",
    "SELECT id, distance FROM vector_top('t', ?1, 5, '[0]', 0, 99, '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]', 'entity_names')",
};
#define SEARCH_COUNT (sizeof(SEARCHES) / sizeof(SEARCHES[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t query[DIMS];
  sqlite3 *db = open_copy(make_vectors);
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
  for (size_t i = 0; i < SEARCH_COUNT; i++) {
    sqlite3_stmt *statement = 0;
    if (sqlite3_prepare_v2(db, SEARCHES[i], -1, &statement, 0) != SQLITE_OK) continue;
    sqlite3_bind_blob(statement, 1, query, DIMS, SQLITE_STATIC);
    search_to_end(statement);
  }
  must(sqlite3_close(db) == SQLITE_OK);
  return 0;
}
