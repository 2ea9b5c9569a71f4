/*
** Table-valued functions whose rows are all found before the first one is given.
*/
#include "results.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

int results_connect(sqlite3 *db, const char *declaration, sqlite3_vtab **out) {
  int rc = sqlite3_declare_vtab(db, declaration);
  if (rc != SQLITE_OK) return rc;
  ResultTable *table = sqlite3_malloc(sizeof(*table));
  if (table == 0) return SQLITE_NOMEM;
  memset(table, 0, sizeof(*table));
  table->db = db;
  *out = &table->base;
  return sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
}

int results_disconnect(sqlite3_vtab *table) {
  sqlite3_free(table);
  return SQLITE_OK;
}

int results_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
  (void)table;
  ResultCursor *cursor = sqlite3_malloc(sizeof(*cursor));
  if (cursor == 0) return SQLITE_NOMEM;
  memset(cursor, 0, sizeof(*cursor));
  *out = &cursor->base;
  return SQLITE_OK;
}

int results_close(sqlite3_vtab_cursor *cursor) {
  results_clear((ResultCursor *)cursor);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

int results_next(sqlite3_vtab_cursor *cursor) {
  ((ResultCursor *)cursor)->at++;
  return SQLITE_OK;
}

int results_eof(sqlite3_vtab_cursor *cursor) { return ((ResultCursor *)cursor)->at >= ((ResultCursor *)cursor)->n; }

int results_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  *rowid = ((ResultCursor *)cursor)->at;
  return SQLITE_OK;
}

int results_take(sqlite3_index_info *info, int first, int arguments, int needed) {
  int next = 1, given = 0;
  for (int argument = 0; argument < arguments; argument++) {
    for (int i = 0; i < info->nConstraint; i++) {
      const struct sqlite3_index_constraint *one = &info->aConstraint[i];
      if (one->iColumn != first + argument || one->op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
      if (!one->usable) return SQLITE_CONSTRAINT;
      info->aConstraintUsage[i].argvIndex = next++;
      info->aConstraintUsage[i].omit = 1;
      given |= 1 << argument;
      break;
    }
  }
  info->idxNum = given;
  info->estimatedCost = 30;
  info->estimatedRows = 10; /* few, so that the rows found are looked up and no table is read through */
  return (given & needed) == needed ? SQLITE_OK : SQLITE_CONSTRAINT;
}

void results_values(int given, int arguments, sqlite3_value **argv, sqlite3_value **value) {
  for (int argument = 0; argument < arguments; argument++) value[argument] = given >> argument & 1 ? *argv++ : 0;
}

void results_clear(ResultCursor *cursor) {
  sqlite3_free(cursor->rows);
  cursor->rows = 0;
  cursor->n = cursor->at = 0;
}

void results_tell(ResultTable *table, char *message) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg = message;
}
