/*
** memdb0: what memdb asks of SQLite and SQLite does not have, in one extension.
**
**   memdb0_version()   the version of this interface: memdb uses no other than its own
**   memdb0_simd()      the widest vector instructions this processor is given
*/
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#define MEMDB0_VERSION 1

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

static void version(sqlite3_context *context, int n, sqlite3_value **values) {
  (void)n;
  (void)values;
  sqlite3_result_int(context, MEMDB0_VERSION);
}

static void simd(sqlite3_context *context, int n, sqlite3_value **values) {
  (void)n;
  (void)values;
  sqlite3_result_text(context, "scalar", -1, SQLITE_STATIC);
}

EXPORTED int sqlite3_memdb0_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  int rc;
  (void)message;
  SQLITE_EXTENSION_INIT2(api);
  rc = sqlite3_create_function_v2(db, "memdb0_version", 0, flags, 0, version, 0, 0, 0);
  if (rc == SQLITE_OK) rc = sqlite3_create_function_v2(db, "memdb0_simd", 0, flags, 0, simd, 0, 0, 0);
  return rc;
}
