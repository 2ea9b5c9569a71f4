/*
** Table-valued functions whose rows are all found before the first one is given.
**
** Columns that are told come first, then a hidden one for each argument. xConnect, xBestIndex, xFilter and xColumn are
** the function's own; all else is here.
*/
#ifndef MEMDB0_RESULTS_H
#define MEMDB0_RESULTS_H

#include "memdb0.h"

typedef struct ResultTable {
  sqlite3_vtab base;
  sqlite3 *db;
} ResultTable;

typedef struct ResultCursor {
  sqlite3_vtab_cursor base;
  void *rows; /* from sqlite3_malloc */
  int n, at;
} ResultCursor;

int results_connect(sqlite3 *db, const char *declaration, sqlite3_vtab **out);
int results_disconnect(sqlite3_vtab *table);
int results_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out);
int results_close(sqlite3_vtab_cursor *cursor);
int results_next(sqlite3_vtab_cursor *cursor);
int results_eof(sqlite3_vtab_cursor *cursor);
int results_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* Take the arguments, the first of which is the column `first`: idxNum has a bit for each that is given, and they come in
** their order. SQLITE_CONSTRAINT where one that is needed is not given, or any of them later only. */
int results_take(sqlite3_index_info *info, int first, int arguments, int needed);
/* value[] of each argument, NULL for one that is not given, as `given` tells (idxNum). */
void results_values(int given, int arguments, sqlite3_value **argv, sqlite3_value **value);
/* No rows. */
void results_clear(ResultCursor *cursor);
/* Leave a message of sqlite3_mprintf, or none, with the table. */
void results_tell(ResultTable *table, char *message);

#endif
