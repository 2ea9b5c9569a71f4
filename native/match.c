/*
** How well rows meet what a question asks for, when common names make that very many rows.
**
**   match_scores(number, id, score, weight)
**
** is an aggregate. Of the scores of one id for one `number` the best one counts, times its weight; these are added up
** over the numbers. Its value is a blob for match_top: 8 bytes of id and 8 of score, for each id, in their order.
**
**   match_top(source, vector, k, matches) -> (id, score, distance)
**
** The k ids of `matches` with the highest scores, and of equal ones those whose vectors in the vec0 table `source` are
** nearest to `vector`, of equally near ones those of smaller ids; scores count to 9 decimals. More may come, in any
** order: all that are above the score of the k-th, and k of those that have it. An id without a vector has distance 2,
** the greatest there is, and so has every one where `vector` is NULL.
*/
#include "results.h"
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define MOST_K 65536
#define FARTHEST 2.0f
#define DECIMALS 1e9

/* ---- match_scores ---- */

typedef struct Entry {
  i64 id, number;
  double score; /* times its weight */
} Entry;

typedef struct Entries {
  Entry *items;
  sqlite3_uint64 n, room;
} Entries;

static void scores_step(sqlite3_context *context, int n, sqlite3_value **value) {
  Entries *all = sqlite3_aggregate_context(context, sizeof(*all));
  (void)n;
  if (all && all->n == all->room) {
    sqlite3_uint64 room = all->room ? 2 * all->room : 64;
    Entry *items = sqlite3_realloc64(all->items, room * sizeof(Entry));
    if (items) all->items = items, all->room = room;
  }
  if (all == 0 || all->n == all->room) {
    sqlite3_result_error_nomem(context);
    return;
  }
  all->items[all->n++] = (Entry){sqlite3_value_int64(value[1]), sqlite3_value_int64(value[0]),
                                 sqlite3_value_double(value[2]) * sqlite3_value_double(value[3])};
}

static int is_after(const Entry *a, const Entry *b) {
  return a->id != b->id ? a->id > b->id : a->number > b->number;
}

static sqlite3_uint64 run_end(const Entry *items, sqlite3_uint64 at, sqlite3_uint64 n) {
  while (at + 1 < n && !is_after(&items[at], &items[at + 1])) at++;
  return at < n ? at + 1 : n;
}

static void merge(const Entry *items, sqlite3_uint64 left, sqlite3_uint64 right, sqlite3_uint64 end, Entry *out) {
  sqlite3_uint64 middle = right;
  while (left < middle || right < end) {
    int first = right == end || (left < middle && !is_after(&items[left], &items[right]));
    *out++ = items[first ? left++ : right++];
  }
}

/* What an index gives comes in a few runs that are in order: they are merged, two by two, until there is one. */
static void sort_runs(Entry **items, Entry **other, sqlite3_uint64 n) {
  while (run_end(*items, 0, n) < n) {
    for (sqlite3_uint64 at = 0; at < n;) {
      sqlite3_uint64 right = run_end(*items, at, n), end = run_end(*items, right, n);
      merge(*items, at, right, end, *other + at);
      at = end;
    }
    Entry *sorted = *other;
    *other = *items;
    *items = sorted;
  }
}

typedef struct Match {
  i64 id;
  double score;
} Match;

/* The entries of each id in one; how many. */
static sqlite3_uint64 add_up(const Entry *items, sqlite3_uint64 n, Match *matches) {
  sqlite3_uint64 found = 0;
  for (sqlite3_uint64 at = 0; at < n;) {
    i64 id = items[at].id;
    double sum = 0;
    while (at < n && items[at].id == id) {
      i64 number = items[at].number;
      double best = items[at].score;
      for (; at < n && items[at].id == id && items[at].number == number; at++) {
        if (items[at].score > best) best = items[at].score;
      }
      sum += best;
    }
    matches[found++] = (Match){id, sum};
  }
  return found;
}

static void scores_value(sqlite3_context *context) {
  Entries *all = sqlite3_aggregate_context(context, 0);
  if (all == 0 || all->n == 0) {
    if (all) sqlite3_free(all->items);
    return;
  }
  Entry *other = sqlite3_malloc64(all->n * sizeof(Entry));
  Match *matches = sqlite3_malloc64(all->n * sizeof(Match));
  if (other && matches) {
    sort_runs(&all->items, &other, all->n);
    sqlite3_uint64 n = add_up(all->items, all->n, matches);
    sqlite3_result_blob64(context, matches, n * sizeof(Match), sqlite3_free);
    matches = 0;
  } else {
    sqlite3_result_error_nomem(context);
  }
  sqlite3_free(matches);
  sqlite3_free(other);
  sqlite3_free(all->items);
}

/* ---- match_top ---- */

enum { COL_ID, COL_SCORE, COL_DISTANCE, COL_SOURCE, COL_VECTOR, COL_K, COL_MATCHES };
#define ARGUMENTS (COL_MATCHES - COL_SOURCE + 1)

typedef struct Row {
  i64 id;
  double score;
  float distance;
} Row;

static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **error) {
  (void)aux, (void)argc, (void)argv, (void)error;
  return results_connect(db,
                         "CREATE TABLE x(id INTEGER, score REAL, distance REAL, source HIDDEN, vector HIDDEN, k HIDDEN,"
                         " matches HIDDEN)",
                         out);
}

static int best_index(sqlite3_vtab *table, sqlite3_index_info *info) {
  (void)table;
  return results_take(info, COL_SOURCE, ARGUMENTS, (1 << ARGUMENTS) - 1);
}

static int fails(ResultTable *table, const char *what) {
  results_tell(table, sqlite3_mprintf("match_top: %s", what));
  return SQLITE_ERROR;
}

/* ---- The scores ---- */

/* What a score counts as: its 9 decimals. */
static i64 counted(double score) {
  double value = score * DECIMALS;
  return value >= 9e18 ? INT64_MAX : value <= -9e18 ? INT64_MIN : value == value ? llrint(value) : INT64_MIN;
}

/* The least of the k highest values, which are kept in a heap with the least on top. */
static i64 kth_highest(const Match *matches, int n, int k, i64 *heap) {
  for (int i = 0; i < n; i++) {
    i64 value = counted(matches[i].score);
    int at = i;
    if (i >= k && value <= heap[0]) continue;
    if (i < k) {
      for (; at > 0 && value < heap[(at - 1) / 2]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    } else {
      at = 0;
      for (int child = 1; child < k; child = 2 * at + 1) {
        if (child + 1 < k && heap[child + 1] < heap[child]) child++;
        if (value <= heap[child]) break;
        heap[at] = heap[child];
        at = child;
      }
    }
    heap[at] = value;
  }
  return heap[0];
}

/* A copy: a blob need not lie where a Match may. Their ids go up, which a file cannot say otherwise. */
static int read_matches(ResultTable *table, sqlite3_value *value, Match **matches, int *n) {
  int bytes = sqlite3_value_bytes(value);
  const void *blob = sqlite3_value_blob(value);
  *n = bytes / (int)sizeof(Match);
  if (sqlite3_value_type(value) != SQLITE_BLOB || bytes % (int)sizeof(Match) != 0) {
    return fails(table, "the matches are no value of match_scores");
  }
  *matches = sqlite3_malloc64((sqlite3_uint64)bytes + 1);
  if (*matches == 0) return SQLITE_NOMEM;
  if (bytes > 0) memcpy(*matches, blob, (size_t)bytes);
  for (int i = 1; i < *n; i++) {
    if ((*matches)[i - 1].id >= (*matches)[i].id) return fails(table, "the matches are not in order");
  }
  return SQLITE_OK;
}

/* ---- The nearest of them ---- */

typedef struct Top {
  ResultTable *table;
  sqlite3_value **value; /* the arguments */
  const Match *matches;
  int n, k;
  i64 *ids; /* room for all */
  Row *rows;
  int found;
} Top;

/* The nearest k of some ids, or all; those without a vector are not among them. */
static int search(Top *top, int n, Search *found) {
  search_init(found);
  found->ids = (List){top->ids, n, 1};
  int rc = search_open(found, top->table->db, (const char *)sqlite3_value_text(top->value[0]), top->value[1], top->k);
  if (rc == SQLITE_OK) rc = search_best(found);
  if (rc == SQLITE_OK) search_sort(found);
  if (rc != SQLITE_OK && found->shadow.error) {
    results_tell(top->table, found->shadow.error);
    found->shadow.error = 0;
  }
  return rc;
}

static int compare_ids(const void *a, const void *b) {
  i64 x = *(const i64 *)a, y = *(const i64 *)b;
  return (x > y) - (x < y);
}

static void add_row(Top *top, i64 id, float distance) {
  const Match *match = bsearch(&id, top->matches, (size_t)top->n, sizeof(*match), compare_ids); /* id comes first */
  if (match) top->rows[top->found++] = (Row){id, match->score, distance};
}

/* Add those of n ids that are nearest, k at most: of those that have no vector, or the farthest one, the first ones. */
static int add_nearest(Top *top, int n) {
  Search found;
  int near = 0, last = top->found, rc = SQLITE_OK;
  memset(&found, 0, sizeof(found));
  if (n == 0) return SQLITE_OK;
  if (sqlite3_value_type(top->value[1]) != SQLITE_NULL) rc = search(top, n, &found);
  while (rc == SQLITE_OK && near < found.n && found.hits[near].distance < FARTHEST) near++;
  if (rc == SQLITE_OK && near < top->k) {
    i64 *placed = sqlite3_malloc64(sizeof(i64) * ((sqlite3_uint64)near + 1));
    if (placed == 0) rc = SQLITE_NOMEM;
    for (int i = 0; placed && i < near; i++) placed[i] = found.hits[i].id;
    if (placed) qsort(placed, (size_t)near, sizeof(i64), compare_ids);
    for (int i = 0; placed && i < n && top->found - last < top->k - near; i++) {
      if (bsearch(&top->ids[i], placed, (size_t)near, sizeof(i64), compare_ids) == 0) {
        add_row(top, top->ids[i], FARTHEST);
      }
    }
    sqlite3_free(placed);
  }
  for (int i = 0; rc == SQLITE_OK && i < near; i++) add_row(top, found.hits[i].id, found.hits[i].distance);
  found.ids.items = 0; /* they are the caller's */
  search_free(&found);
  return rc;
}

static int ids_of(Top *top, i64 least, int above) {
  int n = 0;
  for (int i = 0; i < top->n; i++) {
    i64 value = counted(top->matches[i].score);
    if (above ? value > least : value == least) top->ids[n++] = top->matches[i].id;
  }
  return n;
}

/* Those above the k-th highest score are fewer than k. */
static int find_top(Top *top) {
  i64 least = kth_highest(top->matches, top->n, top->k, top->ids);
  int rc = SQLITE_OK;
  if (top->n > top->k) rc = add_nearest(top, ids_of(top, least, 1));
  else least = INT64_MIN;
  if (rc != SQLITE_OK) return rc;
  if (top->n > top->k) return add_nearest(top, ids_of(top, least, 0));
  for (int i = 0; i < top->n; i++) top->ids[i] = top->matches[i].id;
  return add_nearest(top, top->n);
}

static int run(ResultCursor *cursor, sqlite3_value **value) {
  ResultTable *table = (ResultTable *)cursor->base.pVtab;
  Match *matches = 0;
  i64 k = sqlite3_value_int64(value[COL_K - COL_SOURCE]);
  Top top = {.table = table, .value = value};
  if (sqlite3_value_type(value[COL_MATCHES - COL_SOURCE]) == SQLITE_NULL || k == 0) return SQLITE_OK;
  if (k < 0 || k > MOST_K) return fails(table, "k is out of range");
  if (sqlite3_value_type(value[0]) != SQLITE_TEXT) return fails(table, "which table?");
  int rc = read_matches(table, value[COL_MATCHES - COL_SOURCE], &matches, &top.n);
  if (rc == SQLITE_OK && top.n > 0) {
    top.k = (int)k;
    top.matches = matches;
    top.ids = sqlite3_malloc64(sizeof(i64) * (sqlite3_uint64)top.n);
    top.rows = sqlite3_malloc64(sizeof(Row) * 2 * (sqlite3_uint64)(top.n < top.k ? top.n : top.k));
    rc = top.ids && top.rows ? find_top(&top) : SQLITE_NOMEM;
  }
  sqlite3_free(matches);
  sqlite3_free(top.ids);
  cursor->rows = top.rows;
  cursor->n = rc == SQLITE_OK ? top.found : 0;
  return rc;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *name, int argc, sqlite3_value **argv) {
  (void)given, (void)name, (void)argc; /* all are given */
  results_clear((ResultCursor *)base);
  return run((ResultCursor *)base, argv);
}

static int read_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  const ResultCursor *cursor = (const ResultCursor *)base;
  Row row = ((const Row *)cursor->rows)[cursor->at];
  if (column == COL_ID) sqlite3_result_int64(context, row.id);
  else if (column == COL_SCORE) sqlite3_result_double(context, row.score);
  else if (column == COL_DISTANCE) sqlite3_result_double(context, row.distance);
  return SQLITE_OK;
}

int memdb0_match_init(sqlite3 *db) {
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
  int rc = sqlite3_create_function_v2(db, "match_scores", 4, SQLITE_UTF8 | SQLITE_DIRECTONLY, 0, 0, scores_step,
                                      scores_value, 0);
  return rc == SQLITE_OK ? sqlite3_create_module(db, "match_top", &module, 0) : rc;
}
