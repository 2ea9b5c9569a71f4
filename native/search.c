/*
** Comparing vectors exactly: the best rows, what bounds a search, and the ways through a table.
*/
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define EXACT_FLOAT (1 << 24) /* integers up to here are exact in float */
#define CODED_SLOTS 30000     /* smaller tables are compared exactly */
#define LEAST_SHARE 64        /* and so is one of which more rows than one of so many are asked for */
#define ROW_OF_ID 64          /* slots that cost as much to scan as one id to look up */

/* ---- Room ---- */

void search_init(Search *search) {
  memset(search, 0, sizeof(*search));
  search->said_from = INT64_MIN;
  search->said_until = INT64_MAX;
  search->within = INFINITY;
  search->kernel = memdb0_kernel(0);
}

static int allocate(Search *search, int k) {
  sqlite3_uint64 slots = (sqlite3_uint64)search->shadow.slots, dims = (sqlite3_uint64)search->shadow.dims;
  search->k = k;
  search->hits = sqlite3_malloc64(sizeof(Hit) * ((sqlite3_uint64)k + 1));
  search->query = sqlite3_malloc64(dims);
  search->live = sqlite3_malloc64(slots / 8);
  search->values = sqlite3_malloc64(slots * SHADOW_TEXT_BYTES);
  search->rowids = sqlite3_malloc64(slots * 8);
  search->rows = sqlite3_malloc64(SEARCH_GROUP * dims);
  int all = search->hits && search->query && search->live && search->values && search->rowids && search->rows;
  return all ? SQLITE_OK : SQLITE_NOMEM;
}

int search_open(Search *search, sqlite3 *db, const char *name, sqlite3_value *vector, int k) {
  int rc = shadow_open(&search->shadow, db, name), dims = search->shadow.dims;
  if (rc == SQLITE_OK) rc = allocate(search, k);
  if (rc != SQLITE_OK) return rc;
  const void *blob = sqlite3_value_blob(vector);
  if (sqlite3_value_type(vector) != SQLITE_BLOB || blob == 0 || sqlite3_value_bytes(vector) != dims) {
    const char *what = "the vector has not as many components of int8 as those of the table";
    search->shadow.error = sqlite3_mprintf("%s: %s", name, what);
    return SQLITE_ERROR;
  }
  memcpy(search->query, blob, (size_t)dims);
  for (int i = 0; i < dims; i++) search->query_norm += search->query[i] * search->query[i];
  return SQLITE_OK;
}

void search_free(Search *search) {
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

/* The worst is taken off the heap and put last. */
void search_sort(Search *search) {
  Hit *hits = search->hits;
  for (int last = search->n - 1; last > 0; last--) {
    Hit worst = hits[0];
    hits[0] = hits[last];
    hits[last] = worst;
    sift_down(hits, last, 0);
  }
}

void search_start(Search *search) {
  search->n = 0;
  set_bound(search);
}

int search_best(Search *search) {
  i64 slots = search->shadow.last_chunk * search->shadow.slots;
  search_start(search);
  if (search->ids.given && (i64)search->ids.n * ROW_OF_ID <= slots) return search_ids(search);
  int coded = search->only_coded || (slots >= CODED_SLOTS && search->k <= slots / LEAST_SHARE && !search->only_exact);
  return coded && !search->ids.given ? search_coded(search) : search_exactly(search);
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

static int first_not_less(const List *list, i64 value) {
  int low = 0, high = list->n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (list->items[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

static int has(const List *list, i64 value) {
  int at = first_not_less(list, value);
  return at < list->n && list->items[at] == value;
}

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

/* Rowids mostly go up from slot to slot and from chunk to chunk, so the next id of the list is mostly the one to look
** at: search->next_id is the place of the first that is not less than the rowid before. */
static int is_wanted(Search *search, i64 rowid) {
  const List *ids = &search->ids;
  if (search->next_id > 0 && ids->items[search->next_id - 1] >= rowid) search->next_id = first_not_less(ids, rowid);
  for (int steps = 0; search->next_id < ids->n && ids->items[search->next_id] < rowid; search->next_id++) {
    if (++steps == 8) search->next_id = first_not_less(ids, rowid) - 1;
  }
  return search->next_id < ids->n && ids->items[search->next_id] == rowid;
}

static int filter_ids(Search *search, i64 chunk, uint8_t *live) {
  int rc = read_rowids(search, chunk);
  for (int i = 0; rc == SQLITE_OK && i < search->shadow.slots; i++) {
    if (is_live(live, i) && !is_wanted(search, search->rowids[i])) drop(live, i);
  }
  return rc;
}

int search_bounds_said(const Search *search) {
  return search->said_from != INT64_MIN || search->said_until != INT64_MAX;
}

/* Drop of n slots from `first` on those that the filters on columns refuse; live has a bit for each. */
static int filter_columns(Search *search, i64 chunk, int first, int n, uint8_t *live) {
  int rc = SQLITE_OK;
  if (search->scopes.given) rc = filter_numbers(search, SHADOW_SCOPE, chunk, first, n, live);
  if (rc == SQLITE_OK && search_bounds_said(search)) rc = filter_numbers(search, SHADOW_SAID, chunk, first, n, live);
  if (rc == SQLITE_OK && search->axis) rc = filter_axis(search, chunk, first, n, live);
  return rc;
}

/* The next chunk with the slots that are to be looked at in search->live. */
int search_next_chunk(Search *search, i64 *chunk) {
  int rc = shadow_next(&search->shadow, chunk);
  if (rc != SQLITE_ROW) return rc;
  memcpy(search->live, search->shadow.validity, (size_t)search->shadow.slots / 8);
  rc = filter_columns(search, *chunk, 0, search->shadow.slots, search->live);
  if (rc == SQLITE_OK && search->ids.given) rc = filter_ids(search, *chunk, search->live);
  return rc == SQLITE_OK ? SQLITE_ROW : rc;
}

/* ---- Exact comparison ---- */

/* Compare the live ones of at most SEARCH_GROUP slots. */
static int compare_group(Search *search, i64 chunk, int first, int n) {
  int32_t dot[SEARCH_GROUP], norm[SEARCH_GROUP];
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

int search_slots(Search *search, i64 chunk, int first, int end) {
  int rc = SQLITE_OK;
  for (; rc == SQLITE_OK && first < end; first += SEARCH_GROUP) {
    rc = compare_group(search, chunk, first, end - first < SEARCH_GROUP ? end - first : SEARCH_GROUP);
  }
  return rc;
}

/* Every step to the next chunk notices an interrupt. */
int search_exactly(Search *search) {
  i64 chunk;
  int rc;
  shadow_rewind(&search->shadow);
  while ((rc = search_next_chunk(search, &chunk)) == SQLITE_ROW) {
    rc = search_slots(search, chunk, 0, search->shadow.slots);
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

int search_candidates(Search *search, const Candidate *candidates, i64 n) {
  int32_t dot, norm;
  int rc = SQLITE_OK;
  for (i64 i = 0; rc == SQLITE_OK && i < n; i++) {
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
      Candidate place = {sqlite3_column_int64(statement, 0), 0};
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

int search_ids(Search *search) {
  int found = 0;
  Candidate *places = sqlite3_malloc64(sizeof(*places) * (sqlite3_uint64)search->ids.n + 1);
  if (places == 0) return SQLITE_NOMEM;
  int rc = find_ids(search, places, &found);
  qsort(places, (size_t)found, sizeof(*places), compare_places);
  if (rc == SQLITE_OK) rc = search_candidates(search, places, found);
  sqlite3_free(places);
  return rc;
}

