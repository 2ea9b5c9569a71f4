/*
** Fuzzing the arguments of the table-valued functions and of match_scores(): whatever is given, they answer or refuse.
**
** One byte of an input picks a call; then comes each argument: one byte with its type, one with its size, and its bytes.
** Those that are missing are NULL.
*/
#include <string.h>

#include "tables.h"

static const char *const CALLS[] = {
    "SELECT id, distance FROM vector_top('t', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    "SELECT id, distance FROM vector_top('t', CAST(zeroblob(23) || x'07' AS BLOB), 9, ?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    "SELECT id, distance FROM vector_top(?1, ?2, ?3)",
    "SELECT id, score FROM match_top('t', ?1, ?2, ?3)",
    "SELECT id, score FROM match_top('t', CAST(zeroblob(23) || x'07' AS BLOB), 3, ?1)",
    "SELECT 0, length(match_scores(?1, ?2, ?3, ?4)) FROM (VALUES (1), (2), (3))",
    "SELECT id, score FROM term_top('f', ?1, ?2, ?3)",
    "SELECT id, score FROM term_top(?1, ?2, ?3, ?4)",
};
#define CALL_COUNT (sizeof(CALLS) / sizeof(CALLS[0]))

static void make(sqlite3 *db) {
  make_vectors(db);
  must(sqlite3_exec(db,
                    "CREATE VIRTUAL TABLE f USING fts5(own, after);"
                    "INSERT INTO f VALUES ('cat dog', 'a'), ('dog', 'cat'), ('bird', ''), ('cat cat', 'bird');",
                    0, 0, 0) == SQLITE_OK);
}

static void bind(sqlite3_stmt *statement, int at, int type, const uint8_t *data, size_t n) {
  sqlite3_int64 number = 0;
  double real;
  memcpy(&number, data, n < 8 ? n : 8);
  memcpy(&real, &number, 8);
  switch (type % 5) {
    case 0: sqlite3_bind_text(statement, at, (const char *)data, (int)n, SQLITE_TRANSIENT); break;
    case 1: sqlite3_bind_blob(statement, at, data, (int)n, SQLITE_TRANSIENT); break;
    case 2: sqlite3_bind_int64(statement, at, number); break;
    case 3: sqlite3_bind_double(statement, at, real); break;
    default: sqlite3_bind_null(statement, at);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  sqlite3 *db = open_copy(make);
  sqlite3_stmt *statement = 0;
  must(sqlite3_prepare_v2(db, CALLS[data[0] % CALL_COUNT], -1, &statement, 0) == SQLITE_OK);
  data++, size--;
  for (int at = 1; size >= 2 && at <= sqlite3_bind_parameter_count(statement); at++) {
    int type = data[0];
    size_t n = data[1];
    data += 2, size -= 2;
    if (n > size) n = size;
    bind(statement, at, type, data, n);
    data += n, size -= n;
  }
  search_to_end(statement);
  must(sqlite3_close(db) == SQLITE_OK);
  return 0;
}
