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
** rows so far, and the candidates of the search by codes are held in memory.
**
** Search by codes. For a large table T a table T_code may hold the signs of the components of all chunks but the last,
** one bit each: codes(chunk_id * 4096 + part) are those of the next slots of a chunk, as many parts of equal length as
** it takes to keep each on one page. The score of a code, its product with the query at 4 bits, is a linear function of
** the cosine plus noise; slope, offset and deviation are estimated from vectors spread over the table. First all codes
** are scored, then candidates are compared exactly, best score first, until a score is so low that its vector is among
** the k nearest with little probability (DEVIATIONS). Slots without a code are compared exactly at once. If more
** candidates would be needed than are kept, the whole table is compared exactly.
*/
#include "shadow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define GROUP 64                 /* vectors that are compared at once */
#define MOST_K 65536             /* rows that may be asked for */
#define EXACT_FLOAT (1 << 24)    /* integers up to here are exact in float */
#define PART_BYTES 4050          /* of codes that stay on one page of 4096 */
#define CODED_SLOTS 30000        /* smaller tables are compared exactly */
#define POOL 16384               /* candidates that are kept at least */
#define POOL_OF_K 32             /* and for each row that is asked for */
#define SAMPLES 16               /* parts from which slope and deviation are estimated */
#define LEAST_SAMPLE 128         /* vectors without which they are not */
#define DEVIATIONS 2.0           /* at the last place one in 44 is missed, at the others fewer */
#define BATCH 512                /* candidates that are compared between two looks at the bound */
#define ROW_OF_ID 16             /* slots that cost as much to scan as one id to look up */

typedef sqlite3_int64 i64;

typedef struct Hit {
  float distance; /* INFINITY: of a vector without length */
  i64 id;
} Hit;

typedef struct Candidate {
  i64 chunk;
  int32_t score;
  int32_t slot;
} Candidate;

typedef struct List {
  i64 *items; /* in order, without doubles */
  int n;
  int given;
} List;

typedef struct Search {
  Shadow shadow;
  const Kernel *kernel;
  int8_t *query;
  int32_t query_norm;
  /* What bounds the search. */
  List scopes, ids;
  i64 said_from, said_until;
  char *axis;
  int axis_bytes;
  float within;
  int only_exact, only_coded;
  /* The best so far: a heap with the worst on top. */
  int k, n;
  Hit *hits;
  double least_cosine_squared; /* of a row that may still enter, times the query's norm; 0: any row may */
  /* Room for one chunk. */
  uint8_t *live;
  i64 *values;
  i64 *rowids;
  i64 rowids_of; /* the chunk whose rowids these are; 0: none */
  int8_t *rows;
} Search;

/* ---- The best rows ---- */

static int is_worse(Hit a, Hit b) { return a.distance > b.distance || (a.distance == b.distance && a.id > b.id); }

static void sift_down(Hit *hits, int n, int at) {
  for (;;) {
    int child = 2 * at + 1;
    if (child >= n) return;
    if (child + 1 < n && is_worse(hits[child + 1], hits[child])) child++;
    if (!is_worse(hits[child], hits[at])) return;
    Hit other = hits[at];
    hits[at] = hits[child];
    hits[child] = other;
    at = child;
  }
}

static void sift_up(Hit *hits, int at) {
  while (at > 0 && is_worse(hits[at], hits[(at - 1) / 2])) {
    Hit other = hits[at];
    hits[at] = hits[(at - 1) / 2];
    hits[(at - 1) / 2] = other;
    at = (at - 1) / 2;
  }
}

/* Rows that are clearly farther than the worst of k are told by their cosine squared, without a root or a division. */
static void set_bound(Search *search) {
  double farthest = search->n == search->k && search->hits[0].distance < search->within ? search->hits[0].distance
                                                                                         : search->within;
  double cosine = 1 - farthest - 1e-6;
  search->least_cosine_squared = cosine > 0 ? cosine * cosine * (1 - 1e-9) * search->query_norm : 0;
}

static void keep(Search *search, Hit hit) {
  if (search->n < search->k) {
    search->hits[search->n] = hit;
    sift_up(search->hits, search->n++);
  } else if (is_worse(search->hits[0], hit)) {
    search->hits[0] = hit;
    sift_down(search->hits, search->n, 0);
  } else {
    return;
  }
  set_bound(search);
}

/* Nearest first. */
static void sort_hits(Hit *hits, int n) {
  for (int last = n - 1; last > 0; last--) {
    Hit worst = hits[0];
    hits[0] = hits[last];
    hits[last] = worst;
    sift_down(hits, last, 0);
  }
}

static void forget_hits(Search *search) {
  search->n = 0;
  set_bound(search);
}

/* ---- One row ---- */

/* vec0 adds up in float; whole numbers up to 2^24 are exact there, whatever the order. */
static float distance_of(const Search *search, const int8_t *row, int32_t dot, int32_t norm) {
  float d = (float)dot, a = (float)norm, b = (float)search->query_norm;
  if (norm > EXACT_FLOAT || search->query_norm > EXACT_FLOAT) {
    d = a = b = 0;
    for (int i = 0; i < search->shadow.dims; i++) {
      d += (float)(row[i] * search->query[i]);
      a += (float)(row[i] * row[i]);
      b += (float)(search->query[i] * search->query[i]);
    }
  }
  float distance = (float)(1 - ((double)d / (sqrt((double)a) * sqrt((double)b))));
  return distance == distance ? distance : INFINITY;
}

static int may_enter(const Search *search, int32_t dot, int32_t norm) {
  if (search->least_cosine_squared <= 0) return 1;
  return dot > 0 && (double)dot * dot >= search->least_cosine_squared * norm;
}

static int rowid_of(Search *search, i64 chunk, int slot, i64 *rowid) {
  if (search->rowids_of == chunk) {
    *rowid = search->rowids[slot];
    return SQLITE_OK;
  }
  return shadow_read(&search->shadow, SHADOW_ROWIDS, chunk, slot, 1, rowid);
}

static int offer(Search *search, i64 chunk, int slot, const int8_t *row, int32_t dot, int32_t norm) {
  Hit hit;
  if (!may_enter(search, dot, norm)) return SQLITE_OK;
  hit.distance = distance_of(search, row, dot, norm);
  if (hit.distance > search->within) return SQLITE_OK;
  if (search->n == search->k && hit.distance > search->hits[0].distance) return SQLITE_OK;
  int rc = rowid_of(search, chunk, slot, &hit.id);
  if (rc == SQLITE_OK) keep(search, hit);
  return rc;
}

static int read_rowids(Search *search, i64 chunk) {
  if (search->rowids_of == chunk) return SQLITE_OK;
  search->rowids_of = 0;
  int rc = shadow_read(&search->shadow, SHADOW_ROWIDS, chunk, 0, search->shadow.slots, search->rowids);
  if (rc == SQLITE_OK) search->rowids_of = chunk;
  return rc;
}

/* ---- What bounds the search ---- */

static int has(const List *list, i64 value) {
  int low = 0, high = list->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (list->items[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low < list->n && list->items[low] == value;
}

static int is_live(const uint8_t *live, int slot) { return live[slot >> 3] >> (slot & 7) & 1; }
static void drop(uint8_t *live, int slot) { live[slot >> 3] &= (uint8_t) ~(1u << (slot & 7)); }

static int filter_numbers(Search *search, int kind, i64 chunk, int first, int n, uint8_t *live) {
  int rc = shadow_read(&search->shadow, kind, chunk, first, n, search->values);
  for (int i = 0; rc == SQLITE_OK && i < n; i++) {
    i64 value = search->values[i];
    int good = kind == SHADOW_SCOPE ? has(&search->scopes, value)
                                    : value >= search->said_from && value <= search->said_until;
    if (!good) drop(live, i);
  }
  return rc;
}

/* A text longer than 12 bytes is kept elsewhere as a whole; an axis is never one. */
static int filter_axis(Search *search, i64 chunk, int first, int n, uint8_t *live) {
  const uint8_t *views = (const uint8_t *)search->values;
  int rc = shadow_read(&search->shadow, SHADOW_AXIS, chunk, first, n, search->values);
  for (int i = 0; rc == SQLITE_OK && i < n; i++, views += SHADOW_TEXT_BYTES) {
    int32_t bytes;
    memcpy(&bytes, views, 4);
    if (bytes != search->axis_bytes || memcmp(views + 4, search->axis, (size_t)bytes) != 0) drop(live, i);
  }
  return rc;
}

static int filter_ids(Search *search, i64 chunk, uint8_t *live) {
  int rc = read_rowids(search, chunk);
  for (int i = 0; rc == SQLITE_OK && i < search->shadow.slots; i++) {
    if (is_live(live, i) && !has(&search->ids, search->rowids[i])) drop(live, i);
  }
  return rc;
}

static int bounds_said(const Search *search) {
  return search->said_from != INT64_MIN || search->said_until != INT64_MAX;
}

/* Drop of n slots from `first` on those that the filters on columns refuse; live has a bit for each. */
static int filter_columns(Search *search, i64 chunk, int first, int n, uint8_t *live) {
  int rc = SQLITE_OK;
  if (search->scopes.given) rc = filter_numbers(search, SHADOW_SCOPE, chunk, first, n, live);
  if (rc == SQLITE_OK && bounds_said(search)) rc = filter_numbers(search, SHADOW_SAID, chunk, first, n, live);
  if (rc == SQLITE_OK && search->axis) rc = filter_axis(search, chunk, first, n, live);
  return rc;
}

/* The next chunk with the slots that are to be looked at in search->live. */
static int next_chunk(Search *search, i64 *chunk) {
  const uint8_t *validity;
  int rc = shadow_next(&search->shadow, chunk, &validity);
  if (rc != SQLITE_ROW) return rc;
  memcpy(search->live, validity, (size_t)search->shadow.slots / 8);
  rc = filter_columns(search, *chunk, 0, search->shadow.slots, search->live);
  if (rc == SQLITE_OK && search->ids.given) rc = filter_ids(search, *chunk, search->live);
  return rc == SQLITE_OK ? SQLITE_ROW : rc;
}

/* ---- Exact comparison ---- */

/* Compare the live ones of at most GROUP slots. */
static int compare_group(Search *search, i64 chunk, int first, int n) {
  int32_t dot[GROUP], norm[GROUP];
  int dims = search->shadow.dims;
  while (n > 0 && !is_live(search->live, first)) first++, n--;
  while (n > 0 && !is_live(search->live, first + n - 1)) n--;
  if (n == 0) return SQLITE_OK;
  int rc = shadow_read(&search->shadow, SHADOW_VECTORS, chunk, first, n, search->rows);
  if (rc != SQLITE_OK) return rc;
  search->kernel->products(search->rows, n, dims, search->query, dot, norm);
  for (int i = 0; rc == SQLITE_OK && i < n; i++) {
    if (!is_live(search->live, first + i) || !may_enter(search, dot[i], norm[i])) continue;
    rc = read_rowids(search, chunk);
    if (rc == SQLITE_OK) rc = offer(search, chunk, first + i, search->rows + (size_t)i * (size_t)dims, dot[i], norm[i]);
  }
  return rc;
}

static int compare_slots(Search *search, i64 chunk, int first, int end) {
  int rc = SQLITE_OK;
  for (; rc == SQLITE_OK && first < end; first += GROUP) {
    rc = compare_group(search, chunk, first, end - first < GROUP ? end - first : GROUP);
  }
  return rc;
}

/* Every step to the next chunk notices an interrupt. */
static int search_exactly(Search *search) {
  i64 chunk;
  int rc;
  shadow_rewind(&search->shadow);
  while ((rc = next_chunk(search, &chunk)) == SQLITE_ROW) {
    rc = compare_slots(search, chunk, 0, search->shadow.slots);
    if (rc != SQLITE_OK) return rc;
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- Candidates ---- */

static int compare_places(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (x->chunk != y->chunk) return x->chunk < y->chunk ? -1 : 1;
  return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Compare candidates exactly; they are put into the order of the file first. */
static int compare_candidates(Search *search, Candidate *candidates, int n) {
  int32_t dot, norm;
  int rc = SQLITE_OK;
  qsort(candidates, (size_t)n, sizeof(*candidates), compare_places);
  for (int i = 0; rc == SQLITE_OK && i < n; i++) {
    rc = shadow_read(&search->shadow, SHADOW_VECTORS, candidates[i].chunk, candidates[i].slot, 1, search->rows);
    if (rc != SQLITE_OK) break;
    search->kernel->products(search->rows, 1, search->shadow.dims, search->query, &dot, &norm);
    rc = offer(search, candidates[i].chunk, candidates[i].slot, search->rows, dot, norm);
  }
  return rc;
}

/* Where the ids of the list are; those that are nowhere, or that a filter refuses, are left out. */
static int find_ids(Search *search, Candidate *places, int *found) {
  sqlite3_stmt *statement = 0;
  i64 rowid;
  int rc = shadow_prepare(&search->shadow, "SELECT chunk_id, chunk_offset FROM main.\"%w_rowids\" WHERE rowid = ?1",
                          &statement);
  for (int i = 0; rc == SQLITE_OK && i < search->ids.n; i++) {
    uint8_t live = 1;
    sqlite3_bind_int64(statement, 1, search->ids.items[i]);
    if ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
      Candidate place = {sqlite3_column_int64(statement, 0), 0, 0};
      i64 slot = sqlite3_column_int64(statement, 1);
      place.slot = (int32_t)slot;
      if (slot < 0 || slot >= search->shadow.slots) rc = shadow_corrupt(&search->shadow, "the rowids", place.chunk);
      else rc = shadow_read(&search->shadow, SHADOW_ROWIDS, place.chunk, place.slot, 1, &rowid);
      if (rc == SQLITE_OK && rowid != search->ids.items[i]) {
        rc = shadow_corrupt(&search->shadow, "the rowids", place.chunk);
      }
      if (rc == SQLITE_OK) rc = filter_columns(search, place.chunk, place.slot, 1, &live);
      if (rc == SQLITE_OK && live) places[(*found)++] = place;
    }
    if (rc == SQLITE_DONE) rc = SQLITE_OK;
    sqlite3_reset(statement);
  }
  sqlite3_finalize(statement);
  return rc;
}

static int search_ids(Search *search) {
  int found = 0;
  Candidate *places = sqlite3_malloc64(sizeof(*places) * (sqlite3_uint64)search->ids.n + 1);
  if (places == 0) return SQLITE_NOMEM;
  int rc = find_ids(search, places, &found);
  if (rc == SQLITE_OK) rc = compare_candidates(search, places, found);
  sqlite3_free(places);
  return rc;
}

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
  search->axis = sqlite3_mprintf("%s", text);
  return search->axis ? SQLITE_OK : SQLITE_NOMEM;
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

static int read_query(Search *search, sqlite3_value *value) {
  int dims = search->shadow.dims, bytes = sqlite3_value_bytes(value);
  const void *blob = sqlite3_value_blob(value);
  if (sqlite3_value_type(value) != SQLITE_BLOB || blob == 0 || bytes != dims) {
    return fails(search, "the vector has not as many components of int8 as those of the table");
  }
  memcpy(search->query, blob, (size_t)dims);
  for (int i = 0; i < dims; i++) search->query_norm += search->query[i] * search->query[i];
  return SQLITE_OK;
}

static int allocate(Search *search, i64 k) {
  sqlite3_uint64 slots = (sqlite3_uint64)search->shadow.slots, dims = (sqlite3_uint64)search->shadow.dims;
  search->k = (int)k;
  search->hits = sqlite3_malloc64(sizeof(Hit) * (sqlite3_uint64)(k + 1));
  search->query = sqlite3_malloc64(dims);
  search->live = sqlite3_malloc64(slots / 8);
  search->values = sqlite3_malloc64(slots * SHADOW_TEXT_BYTES);
  search->rowids = sqlite3_malloc64(slots * 8);
  search->rows = sqlite3_malloc64(GROUP * dims);
  int all = search->hits && search->query && search->live && search->values && search->rowids && search->rows;
  return all ? SQLITE_OK : SQLITE_NOMEM;
}

static void free_search(Search *search) {
  shadow_close(&search->shadow);
  sqlite3_free(search->query);
  sqlite3_free(search->scopes.items);
  sqlite3_free(search->ids.items);
  sqlite3_free(search->axis);
  sqlite3_free(search->hits);
  sqlite3_free(search->live);
  sqlite3_free(search->values);
  sqlite3_free(search->rowids);
  sqlite3_free(search->rows);
}

/* ---- The table-valued function ---- */

enum { COL_ID, COL_DISTANCE, COL_SOURCE, COL_VECTOR, COL_K, COL_SCOPES, COL_FROM, COL_UNTIL, COL_IDS, COL_AXIS, COL_WITHIN,
       COL_HOW };
#define ARGUMENTS (COL_HOW - COL_SOURCE + 1)
#define ALL_NEEDED 7 /* source, vector, k */

typedef struct Cursor {
  sqlite3_vtab_cursor base;
  Hit *hits;
  int n, at;
} Cursor;

typedef struct Table {
  sqlite3_vtab base;
  sqlite3 *db;
} Table;

static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **error) {
  (void)aux, (void)argc, (void)argv, (void)error;
  int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(id INTEGER, distance REAL, source HIDDEN, vector HIDDEN, k HIDDEN,"
                                    " scopes HIDDEN, said_from HIDDEN, said_until HIDDEN, ids HIDDEN, axis HIDDEN,"
                                    " within HIDDEN, how HIDDEN)");
  if (rc != SQLITE_OK) return rc;
  Table *table = sqlite3_malloc(sizeof(*table));
  if (table == 0) return SQLITE_NOMEM;
  memset(table, 0, sizeof(*table));
  table->db = db;
  *out = &table->base;
  return sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
}

static int disconnect_table(sqlite3_vtab *table) {
  sqlite3_free(table);
  return SQLITE_OK;
}

/* idxNum has a bit for each argument that is given; they come in their order. */
static int best_index(sqlite3_vtab *table, sqlite3_index_info *info) {
  int where[ARGUMENTS], given = 0, next = 1;
  (void)table;
  for (int i = 0; i < info->nConstraint; i++) {
    int argument = info->aConstraint[i].iColumn - COL_SOURCE;
    if (argument < 0 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
    if (!info->aConstraint[i].usable) return SQLITE_CONSTRAINT;
    where[argument] = i;
    given |= 1 << argument;
  }
  if ((given & ALL_NEEDED) != ALL_NEEDED) return SQLITE_CONSTRAINT;
  for (int argument = 0; argument < ARGUMENTS; argument++) {
    if (!(given >> argument & 1)) continue;
    info->aConstraintUsage[where[argument]].argvIndex = next++;
    info->aConstraintUsage[where[argument]].omit = 1;
  }
  info->idxNum = given;
  info->estimatedCost = 30;
  info->estimatedRows = 10; /* few, so that the rows found are looked up and no table is read through */
  info->orderByConsumed = info->nOrderBy == 1 && info->aOrderBy[0].iColumn == COL_DISTANCE && !info->aOrderBy[0].desc;
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
  (void)table;
  Cursor *cursor = sqlite3_malloc(sizeof(*cursor));
  if (cursor == 0) return SQLITE_NOMEM;
  memset(cursor, 0, sizeof(*cursor));
  *out = &cursor->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  sqlite3_free(((Cursor *)base)->hits);
  sqlite3_free(base);
  return SQLITE_OK;
}

/* A filter on a column that the table has not is an error: it would be silently ignored. */
static int check_columns(Search *search) {
  const int *number = search->shadow.number;
  if (search->scopes.given && number[SHADOW_SCOPE] < 0) return fails(search, "the table has no column scope_id");
  if (bounds_said(search) && number[SHADOW_SAID] < 0) return fails(search, "the table has no column said_key");
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
  int rc = allocate(search, sqlite3_value_int64(value[COL_K - COL_SOURCE]));
  if (rc == SQLITE_OK) rc = read_query(search, value[COL_VECTOR - COL_SOURCE]);
  if (rc == SQLITE_OK && value[COL_SCOPES - COL_SOURCE]) {
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
  int rc = shadow_open(&search->shadow, db, name);
  if (rc == SQLITE_OK) rc = read_arguments(search, value);
  if (rc != SQLITE_OK || k == 0) return rc;
  forget_hits(search);
  i64 slots = search->shadow.last_chunk * search->shadow.slots;
  if (search->ids.given && (i64)search->ids.n * ROW_OF_ID <= slots) return search_ids(search);
  return search_exactly(search);
}

/* Without a vector there is nothing to look for. */
static int filter(sqlite3_vtab_cursor *base, int given, const char *name, int argc, sqlite3_value **argv) {
  Cursor *cursor = (Cursor *)base;
  Table *table = (Table *)base->pVtab;
  sqlite3_value *value[ARGUMENTS] = {0};
  (void)name, (void)argc;
  for (int argument = 0; argument < ARGUMENTS; argument++) {
    if (given >> argument & 1) value[argument] = *argv++;
  }
  sqlite3_free(cursor->hits);
  cursor->hits = 0;
  cursor->n = cursor->at = 0;
  if (sqlite3_value_type(value[COL_VECTOR - COL_SOURCE]) == SQLITE_NULL) return SQLITE_OK;
  Search search;
  memset(&search, 0, sizeof(search));
  search.said_from = INT64_MIN;
  search.said_until = INT64_MAX;
  search.within = INFINITY;
  search.kernel = memdb0_kernel(0);
  int rc = run(&search, table->db, value);
  if (rc == SQLITE_OK) {
    sort_hits(search.hits, search.n);
    cursor->hits = search.hits;
    cursor->n = search.n;
    search.hits = 0;
  } else if (search.shadow.error) {
    sqlite3_free(table->base.zErrMsg);
    table->base.zErrMsg = search.shadow.error;
    search.shadow.error = 0;
  }
  free_search(&search);
  return rc;
}

static int next_hit(sqlite3_vtab_cursor *base) {
  ((Cursor *)base)->at++;
  return SQLITE_OK;
}

static int is_end(sqlite3_vtab_cursor *base) { return ((Cursor *)base)->at >= ((Cursor *)base)->n; }

static int read_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  const Cursor *cursor = (const Cursor *)base;
  Hit hit = cursor->hits[cursor->at];
  if (column == COL_ID) sqlite3_result_int64(context, hit.id);
  else if (column == COL_DISTANCE && hit.distance != INFINITY) sqlite3_result_double(context, hit.distance);
  return SQLITE_OK;
}

static int rowid_of_hit(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  *rowid = ((Cursor *)base)->at;
  return SQLITE_OK;
}

int memdb0_scan_init(sqlite3 *db) {
  static const sqlite3_module module = {
      .xConnect = connect_table,
      .xBestIndex = best_index,
      .xDisconnect = disconnect_table,
      .xOpen = open_cursor,
      .xClose = close_cursor,
      .xFilter = filter,
      .xNext = next_hit,
      .xEof = is_end,
      .xColumn = read_column,
      .xRowid = rowid_of_hit,
  };
  return sqlite3_create_module(db, "vector_top", &module, 0);
}
