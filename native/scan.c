/*
** vector_top(source, vector, k, scopes, said_from, said_until, ids, axis, within, how) -> (id, distance)
**
** The k rows of a vec0 table whose int8 vectors have the least cosine distance to `vector`, nearest first, of equal ones
** the smaller id first; a vector without length has distance NULL and comes last. The distance is bit for bit that of
** vec0. NULL for an argument, or leaving it out, means that it bounds nothing:
**
**   scopes      an integer, or a JSON list of integers, of which the column scope_id is one
**   said_from   the least, and said_until the greatest value of the column said_key
**   ids         a JSON list of ids
**   axis        the value of the column axis
**   within      the greatest distance, rounded to float as vec0 does
**   how         for tests and measurements: 'exact' or 'coded', and the name of a kernel
**
** It reads vec0's shadow tables (shadow.c), so it sees what the connection sees. Only the filters of a chunk, the best
** rows so far, and the candidates of a search by codes (coded.c) are held in memory.
*/
#include "results.h"
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define MOST_K 65536 /* rows that may be asked for */

/* ---- Arguments ---- */

static const char *skip_spaces(const char *at, const char *end) {
  while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r'))) at++;
  return at;
}

/* One integer of a JSON list; NULL if there is none that fits. */
static const char *read_integer(const char *at, const char *end, i64 *value) {
  int negative = at < end && *at == '-';
  const char *start = at += negative;
  sqlite3_uint64 sum = 0, most = (sqlite3_uint64)INT64_MAX + (sqlite3_uint64)negative;
  for (; at < end && *at >= '0' && *at <= '9'; at++) {
    unsigned digit = (unsigned)(*at - '0');
    if (sum > (most - digit) / 10) return 0;
    sum = sum * 10 + digit;
  }
  if (at == start) return 0;
  *value = negative ? (sum == most ? INT64_MIN : -(i64)sum) : (i64)sum;
  return at;
}

/* `[1, 2, 3]`; `items` has room for as many as there are bytes / 2. Returns how many, or -1. */
static int read_integers(const char *at, const char *end, i64 *items) {
  int n = 0;
  at = skip_spaces(at, end);
  if (at == end || *at != '[') return -1;
  at = skip_spaces(at + 1, end);
  if (at < end && *at == ']') return skip_spaces(at + 1, end) == end ? 0 : -1;
  while (at < end) {
    at = read_integer(at, end, &items[n++]);
    if (at == 0) return -1;
    at = skip_spaces(at, end);
    if (at < end && *at == ']') return skip_spaces(at + 1, end) == end ? n : -1;
    if (at == end || *at != ',') return -1;
    at = skip_spaces(at + 1, end);
  }
  return -1;
}

static int compare_integers(const void *a, const void *b) {
  i64 x = *(const i64 *)a, y = *(const i64 *)b;
  return (x > y) - (x < y);
}

static int fails(Search *search, const char *what) {
  sqlite3_free(search->shadow.error);
  search->shadow.error = sqlite3_mprintf("vector_top: %s", what);
  return SQLITE_ERROR;
}

static int read_list(Search *search, sqlite3_value *value, List *list) {
  int type = sqlite3_value_type(value), n = 1;
  if (type == SQLITE_NULL) return SQLITE_OK;
  const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : 0;
  int bytes = text ? sqlite3_value_bytes(value) : 0;
  if (type != SQLITE_INTEGER && text == 0) return fails(search, "not a JSON list of integers");
  list->items = sqlite3_malloc64(sizeof(i64) * ((sqlite3_uint64)bytes / 2 + 1));
  if (list->items == 0) return SQLITE_NOMEM;
  list->given = 1;
  if (text) n = read_integers(text, text + bytes, list->items);
  else list->items[0] = sqlite3_value_int64(value);
  if (n < 0) return fails(search, "not a JSON list of integers");
  qsort(list->items, (size_t)n, sizeof(i64), compare_integers);
  for (int i = 0; i < n; i++) {
    if (list->n == 0 || list->items[list->n - 1] != list->items[i]) list->items[list->n++] = list->items[i];
  }
  return SQLITE_OK;
}

static int read_axis(Search *search, sqlite3_value *value) {
  if (sqlite3_value_type(value) == SQLITE_NULL) return SQLITE_OK;
  const char *text = (const char *)sqlite3_value_text(value);
  search->axis_bytes = sqlite3_value_bytes(value);
  if (text == 0) return SQLITE_NOMEM;
  if (search->axis_bytes > SHADOW_TEXT_BYTES - 4) return fails(search, "an axis has at most 12 bytes");
  search->axis = sqlite3_malloc(SHADOW_TEXT_BYTES);
  if (search->axis == 0) return SQLITE_NOMEM;
  memcpy(search->axis, text, (size_t)search->axis_bytes); /* it may have a NUL */
  return SQLITE_OK;
}

/* Words between blanks. */
static int read_how(Search *search, sqlite3_value *value) {
  char word[16];
  const char *text = (const char *)sqlite3_value_text(value);
  search->kernel = memdb0_kernel(0);
  while (text && *text) {
    size_t n = strcspn(text, " ");
    if (n >= sizeof(word)) return fails(search, "no such way to search");
    memcpy(word, text, n);
    word[n] = 0;
    text += n + (text[n] == ' ');
    if (strcmp(word, "exact") == 0) search->only_exact = 1;
    else if (strcmp(word, "coded") == 0) search->only_coded = 1;
    else if ((search->kernel = memdb0_kernel(word)) == 0) return fails(search, "this processor has no such kernel");
  }
  return SQLITE_OK;
}

/* ---- The table-valued function ---- */

enum { COL_ID, COL_DISTANCE, COL_SOURCE, COL_VECTOR, COL_K, COL_SCOPES, COL_FROM, COL_UNTIL, COL_IDS, COL_AXIS, COL_WITHIN,
       COL_HOW };
#define ARGUMENTS (COL_HOW - COL_SOURCE + 1)
#define ALL_NEEDED 7 /* source, vector, k */

static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **error) {
  (void)aux, (void)argc, (void)argv, (void)error;
  return results_connect(db,
                         "CREATE TABLE x(id INTEGER, distance REAL, source HIDDEN, vector HIDDEN, k HIDDEN,"
                         " scopes HIDDEN, said_from HIDDEN, said_until HIDDEN, ids HIDDEN, axis HIDDEN,"
                         " within HIDDEN, how HIDDEN)",
                         out);
}

static int best_index(sqlite3_vtab *table, sqlite3_index_info *info) {
  (void)table;
  info->orderByConsumed = info->nOrderBy == 1 && info->aOrderBy[0].iColumn == COL_DISTANCE && !info->aOrderBy[0].desc;
  return results_take(info, COL_SOURCE, ARGUMENTS, ALL_NEEDED);
}

/* A filter on a column that the table has not is an error: it would be silently ignored. */
static int check_columns(Search *search) {
  const int *number = search->shadow.number;
  if (search->scopes.given && number[SHADOW_SCOPE] < 0) return fails(search, "the table has no column scope_id");
  if (search_bounds_said(search) && number[SHADOW_SAID] < 0) return fails(search, "the table has no column said_key");
  if (search->axis && number[SHADOW_AXIS] < 0) return fails(search, "the table has no column axis");
  return SQLITE_OK;
}

/* Bounds that are no integers but REAL or TEXT would be compared in other ways by vec0. */
static int read_bound(Search *search, sqlite3_value *value, i64 *bound) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_INTEGER) *bound = sqlite3_value_int64(value);
  return type == SQLITE_INTEGER || type == SQLITE_NULL ? SQLITE_OK : fails(search, "said_from and said_until are integers");
}

static void read_within(Search *search, sqlite3_value *value) {
  if (sqlite3_value_type(value) == SQLITE_NULL) return;
  search->within = (float)sqlite3_value_double(value);
}

static int read_arguments(Search *search, sqlite3_value **value) {
  int rc = SQLITE_OK;
  if (value[COL_SCOPES - COL_SOURCE]) {
    rc = read_list(search, value[COL_SCOPES - COL_SOURCE], &search->scopes);
  }
  if (rc == SQLITE_OK && value[COL_FROM - COL_SOURCE]) {
    rc = read_bound(search, value[COL_FROM - COL_SOURCE], &search->said_from);
  }
  if (rc == SQLITE_OK && value[COL_UNTIL - COL_SOURCE]) {
    rc = read_bound(search, value[COL_UNTIL - COL_SOURCE], &search->said_until);
  }
  if (rc == SQLITE_OK && value[COL_IDS - COL_SOURCE]) rc = read_list(search, value[COL_IDS - COL_SOURCE], &search->ids);
  if (rc == SQLITE_OK && value[COL_AXIS - COL_SOURCE]) rc = read_axis(search, value[COL_AXIS - COL_SOURCE]);
  if (rc == SQLITE_OK && value[COL_WITHIN - COL_SOURCE]) read_within(search, value[COL_WITHIN - COL_SOURCE]);
  if (rc == SQLITE_OK && value[COL_HOW - COL_SOURCE]) rc = read_how(search, value[COL_HOW - COL_SOURCE]);
  return rc == SQLITE_OK ? check_columns(search) : rc;
}

static int run(Search *search, sqlite3 *db, sqlite3_value **value) {
  const char *name = (const char *)sqlite3_value_text(value[0]);
  i64 k = sqlite3_value_int64(value[COL_K - COL_SOURCE]);
  if (name == 0) return fails(search, "which table?");
  if (k < 0 || k > MOST_K) return fails(search, "k is out of range");
  int rc = search_open(search, db, name, value[COL_VECTOR - COL_SOURCE], (int)k);
  if (rc == SQLITE_OK) rc = read_arguments(search, value);
  return rc == SQLITE_OK && k > 0 ? search_best(search) : rc;
}

/* Without a vector there is nothing to look for. */
static int filter(sqlite3_vtab_cursor *base, int given, const char *name, int argc, sqlite3_value **argv) {
  ResultCursor *cursor = (ResultCursor *)base;
  ResultTable *table = (ResultTable *)base->pVtab;
  sqlite3_value *value[ARGUMENTS];
  (void)name, (void)argc;
  results_values(given, ARGUMENTS, argv, value);
  results_clear(cursor);
  if (sqlite3_value_type(value[COL_VECTOR - COL_SOURCE]) == SQLITE_NULL) return SQLITE_OK;
  Search search;
  search_init(&search);
  int rc = run(&search, table->db, value);
  if (rc == SQLITE_OK) {
    search_sort(&search);
    cursor->rows = search.hits;
    cursor->n = search.n;
    search.hits = 0;
  } else if (search.shadow.error) {
    results_tell(table, search.shadow.error);
    search.shadow.error = 0;
  }
  search_free(&search);
  return rc;
}

static int read_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  const ResultCursor *cursor = (const ResultCursor *)base;
  Hit hit = ((const Hit *)cursor->rows)[cursor->at];
  if (column == COL_ID) sqlite3_result_int64(context, hit.id);
  else if (column == COL_DISTANCE && hit.distance != INFINITY) sqlite3_result_double(context, hit.distance);
  return SQLITE_OK;
}

int memdb0_scan_init(sqlite3 *db) {
  static const sqlite3_module module = {
      .xConnect = connect_table,
      .xBestIndex = best_index,
      .xDisconnect = results_disconnect,
      .xOpen = results_open,
      .xClose = results_close,
      .xFilter = filter,
      .xNext = results_next,
      .xEof = results_eof,
      .xColumn = read_column,
      .xRowid = results_rowid,
  };
  return sqlite3_create_module(db, "vector_top", &module, 0);
}
