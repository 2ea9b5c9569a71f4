/*
** memdb0: the SQLite extension of memdb.
**
** It reads the shadow tables of vec0 (sqlite-vec) and FTS5 directly, and finds the best rows of an index faster than
** these do. It keeps nothing of its own: a file is the same with it and without it.
**
**   memdb0.c    memdb0_version(), the version of this interface: memdb uses no other than its own; and
**               memdb0_simd(), the name of the kernel that is used here
**   scan.c      vector_top(), the nearest vectors of a vec0 table, whose tables shadow.c reads
**   match.c     match_scores() and match_top(), the rows that meet a question best, the nearest ones first
**   results.c   what these functions share as tables of SQLite
**   kernel.c    products of vectors, for the instructions that the processor has
**   lexical.c   term_top(), the rows of an FTS5 table with the best BM25 scores, with scoring.c and fts5_index.c
*/
#include "memdb0.h"

SQLITE_EXTENSION_INIT1

#if defined(__GNUC__)
#pragma weak memdb0_lexical_init
#define HAS_LEXICAL (&memdb0_lexical_init != 0)
#else
#define HAS_LEXICAL 1
#endif

#define MEMDB0_VERSION 2

static void version(sqlite3_context *context, int n, sqlite3_value **values) {
  (void)n, (void)values;
  sqlite3_result_int(context, MEMDB0_VERSION);
}

static void simd(sqlite3_context *context, int n, sqlite3_value **values) {
  (void)n, (void)values;
  sqlite3_result_text(context, memdb0_kernel(0)->name, -1, SQLITE_STATIC);
}

#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int sqlite3_memdb0_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  int rc;
  SQLITE_EXTENSION_INIT2(api);
  (void)error;
  rc = sqlite3_create_function_v2(db, "memdb0_version", 0, flags, 0, version, 0, 0, 0);
  if (rc == SQLITE_OK) rc = sqlite3_create_function_v2(db, "memdb0_simd", 0, flags, 0, simd, 0, 0, 0);
  if (rc == SQLITE_OK) rc = memdb0_scan_init(db);
  if (rc == SQLITE_OK) rc = memdb0_match_init(db);
  if (rc == SQLITE_OK && HAS_LEXICAL) rc = memdb0_lexical_init(db);
  return rc;
}
