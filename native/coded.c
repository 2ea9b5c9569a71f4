/*
** Searching a large table by codes first.
**
** For a table T a table T_code(chunk_id * 4096 + part, codes) may hold the signs of the components of its vectors, one
** bit each (1: more than 0). The slots of a chunk are cut into as many parts of equal length as it takes for each to
** stay on a page. Only of a chunk that another one follows directly are codes used: no slot of it was filled since they
** were made. Slots that have no code are compared exactly at once.
**
** The score of a code is its product with the query, of which 4 bits a component are kept. It is a linear function of
** the cosine plus noise; slope, offset and deviation are estimated from vectors spread over the table. All codes are
** scored, and the vectors behind them compared exactly, best score first, until a score is so low that a vector that
** enters the k nearest would have more than DEVIATIONS standard deviations of noise. If for that more candidates are
** needed than are kept, or if scores tell nothing, the whole table is compared exactly.
*/
#include "search.h"

#include <math.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define PART_BYTES 4050  /* of codes that stay on a page of 4096 */
#define POOL 8192        /* candidates that are kept at least */
#define POOL_OF_K 32     /* and for each row that is asked for */
#define SAMPLES 12       /* parts from which slope and deviation are estimated */
#define LEAST_SAMPLE 128 /* vectors without which they are not */
#define DEVIATIONS 2.0   /* at the last place one in 44 is missed, at the others fewer */
#define BATCH 512        /* candidates that are compared between two looks at the bound */

typedef struct Coded {
  Search *search;
  sqlite3_stmt *codes; /* code_id, codes */
  i64 code_id;         /* of its row; INT64_MAX: it has none */
  int code_bytes, parts, part_slots;
  uint8_t *planes;
  int32_t *scores; /* of a part */
  /* The candidates with the best scores, and the best score that was dropped. */
  Candidate *pool;
  int n, room;
  int32_t dropped;
  /* Sums over the sample: x the cosine, y the score. */
  i64 part_number, part_step;
  double count, x, y, xx, xy, yy;
  double slope, offset, deviation;
  int known; /* whether these are */
} Coded;

/* ---- Room ---- */

/* Signed 4-bit components, as planes of bits; bit 7 of a byte is the first component, as numpy packs them. */
static void cut_query(Coded *coded) {
  const Search *search = coded->search;
  int stride = memdb0_plane_bytes(coded->code_bytes), most = 1;
  for (int i = 0; i < search->shadow.dims; i++) {
    int size = search->query[i] < 0 ? -search->query[i] : search->query[i];
    if (size > most) most = size;
  }
  for (int i = 0; i < search->shadow.dims; i++) {
    int value = (int)lrint(search->query[i] * 7.5 / most);
    unsigned bits = (unsigned)(value > 7 ? 7 : value < -8 ? -8 : value);
    for (int p = 0; p < MEMDB0_PLANES; p++) {
      if (bits >> p & 1) coded->planes[p * stride + i / 8] |= (uint8_t)(128 >> i % 8);
    }
  }
}

static int allocate(Coded *coded) {
  const Search *search = coded->search;
  int most = PART_BYTES / (coded->code_bytes = (search->shadow.dims + 7) / 8);
  coded->parts = (search->shadow.slots + most - 1) / most;
  coded->part_slots = (search->shadow.slots + coded->parts - 1) / coded->parts;
  coded->room = 2 * (search->k > POOL / POOL_OF_K ? search->k * POOL_OF_K : POOL);
  size_t planes = (size_t)memdb0_plane_bytes(coded->code_bytes) * MEMDB0_PLANES;
  coded->planes = sqlite3_malloc64(planes);
  coded->scores = sqlite3_malloc64(sizeof(int32_t) * (size_t)coded->part_slots);
  coded->pool = sqlite3_malloc64(sizeof(Candidate) * (size_t)coded->room);
  if (!coded->planes || !coded->scores || !coded->pool) return SQLITE_NOMEM;
  memset(coded->planes, 0, planes);
  cut_query(coded);
  return SQLITE_OK;
}

static void free_coded(Coded *coded) {
  sqlite3_finalize(coded->codes);
  sqlite3_free(coded->planes);
  sqlite3_free(coded->scores);
  sqlite3_free(coded->pool);
}

/* ---- The pool ---- */

static void exchange(Candidate *a, Candidate *b) {
  Candidate other = *a;
  *a = *b;
  *b = other;
}

/* Put the m candidates with the best scores first (Hoare's selection). */
static void select_best(Candidate *pool, int n, int m) {
  int low = 0, high = n - 1;
  while (low < high) {
    int32_t pivot = pool[low + (high - low) / 2].score;
    int i = low, j = high;
    while (i <= j) {
      while (pool[i].score > pivot) i++;
      while (pool[j].score < pivot) j--;
      if (i <= j) exchange(&pool[i++], &pool[j--]);
    }
    if (m - 1 <= j) high = j;
    else if (m - 1 >= i) low = i;
    else return;
  }
}

static void pool_add(Coded *coded, Candidate candidate) {
  if (coded->n == coded->room) {
    int half = coded->room / 2;
    select_best(coded->pool, coded->n, half);
    for (coded->n = half; coded->n < coded->room; coded->n++) {
      if (coded->pool[coded->n].score > coded->dropped) coded->dropped = coded->pool[coded->n].score;
    }
    coded->n = half;
  }
  if (candidate.score > coded->dropped) coded->pool[coded->n++] = candidate;
}

/* ---- Scores ---- */

static int step_codes(Coded *coded) {
  int rc = sqlite3_step(coded->codes);
  coded->code_id = rc == SQLITE_ROW ? sqlite3_column_int64(coded->codes, 0) : INT64_MAX;
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* SQLITE_NOTFOUND: the file has none. */
static int open_codes(Coded *coded) {
  int rc = shadow_prepare(&coded->search->shadow, "SELECT code_id, codes FROM main.\"%w_code\" ORDER BY code_id",
                          &coded->codes);
  if (rc == SQLITE_ERROR) return SQLITE_NOTFOUND;
  return rc == SQLITE_OK ? step_codes(coded) : rc;
}

/* What the score of a code tells, against its vector. */
static void sample(Coded *coded, int32_t score, int32_t dot, int32_t norm) {
  if (norm == 0) return;
  double x = dot / sqrt((double)norm * coded->search->query_norm), y = score;
  coded->count += 1;
  coded->x += x;
  coded->y += y;
  coded->xx += x * x;
  coded->xy += x * y;
  coded->yy += y * y;
}

static int sample_part(Coded *coded, i64 chunk, int first, int n) {
  int32_t dot[SEARCH_GROUP], norm[SEARCH_GROUP];
  Search *search = coded->search;
  for (int from = 0; from < n; from += SEARCH_GROUP) {
    int some = n - from < SEARCH_GROUP ? n - from : SEARCH_GROUP;
    int rc = shadow_read(&search->shadow, SHADOW_VECTORS, chunk, first + from, some, search->rows);
    if (rc != SQLITE_OK) return rc;
    search->kernel->products(search->rows, some, search->shadow.dims, search->query, dot, norm);
    for (int i = 0; i < some; i++) {
      if (is_live(search->shadow.validity, first + from + i)) sample(coded, coded->scores[from + i], dot[i], norm[i]);
    }
  }
  return SQLITE_OK;
}

static int score_part(Coded *coded, i64 chunk, int first, int n) {
  Search *search = coded->search;
  const uint8_t *codes = sqlite3_column_blob(coded->codes, 1);
  if (codes == 0 || sqlite3_column_bytes(coded->codes, 1) != n * coded->code_bytes) {
    return shadow_corrupt(&search->shadow, "the codes", chunk);
  }
  search->kernel->scores(codes, n, coded->code_bytes, coded->planes, coded->scores);
  for (int i = 0; i < n; i++) {
    if (coded->scores[i] <= coded->dropped || !is_live(search->live, first + i)) continue;
    pool_add(coded, (Candidate){chunk, first + i, coded->scores[i]});
  }
  if (coded->part_number++ % coded->part_step != 0) return SQLITE_OK;
  return sample_part(coded, chunk, first, n);
}

static int score_chunk(Coded *coded, i64 chunk) {
  Search *search = coded->search;
  int rc = SQLITE_OK, slots = search->shadow.slots;
  for (int part = 0, first = 0; rc == SQLITE_OK && first < slots; part++, first += coded->part_slots) {
    int n = slots - first < coded->part_slots ? slots - first : coded->part_slots;
    i64 code_id = chunk * SHADOW_MAX_SLOTS + part;
    while (rc == SQLITE_OK && coded->code_id < code_id) rc = step_codes(coded);
    if (rc != SQLITE_OK) return rc;
    if (coded->code_id == code_id && search->shadow.followed) rc = score_part(coded, chunk, first, n);
    else rc = search_slots(search, chunk, first, first + n);
  }
  return rc;
}

static int score_all(Coded *coded) {
  Search *search = coded->search;
  i64 chunk;
  int rc;
  i64 parts = search->shadow.last_chunk * coded->parts;
  coded->part_step = parts / SAMPLES > 1 ? parts / SAMPLES : 1;
  shadow_rewind(&search->shadow);
  while ((rc = search_next_chunk(search, &chunk)) == SQLITE_ROW) {
    rc = score_chunk(coded, chunk);
    if (rc != SQLITE_OK) return rc;
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- Candidates ---- */

/* score = offset + slope * cosine + noise, by least squares, if that tells anything. */
static void estimate(Coded *coded) {
  double n = coded->count;
  if (n < LEAST_SAMPLE) return;
  double xx = coded->xx - coded->x * coded->x / n, xy = coded->xy - coded->x * coded->y / n;
  double yy = coded->yy - coded->y * coded->y / n;
  if (!(xx > 1e-9 * n) || !(xy > 0)) return;
  coded->slope = xy / xx;
  coded->offset = (coded->y - coded->slope * coded->x) / n;
  coded->deviation = sqrt(fmax(0, yy - coded->slope * xy) / n);
  coded->known = 1;
}

/* The least score of a vector that may be among the k nearest. */
static double least_score(const Coded *coded) {
  const Search *search = coded->search;
  double farthest = search->within;
  if (search->n == search->k && search->hits[0].distance < farthest) farthest = search->hits[0].distance;
  if (farthest > 2 || !coded->known) return -INFINITY;
  return coded->offset + coded->slope * (1 - farthest) - DEVIATIONS * coded->deviation;
}

/* Compare candidates, best score first, as long as one may enter. */
static int compare_pool(Coded *coded) {
  int rc = SQLITE_OK;
  for (int from = 0; rc == SQLITE_OK && from < coded->n; from += BATCH) {
    Candidate *batch = coded->pool + from;
    int left = coded->n - from, n = left < BATCH ? left : BATCH, good = 0;
    double least = least_score(coded);
    if (n < left) select_best(batch, left, n);
    for (int i = 0; i < n; i++) {
      if (batch[i].score >= least) exchange(&batch[good++], &batch[i]);
    }
    rc = search_candidates(coded->search, batch, good);
    if (good < n) break;
  }
  return rc;
}

int search_coded(Search *search) {
  Coded coded;
  memset(&coded, 0, sizeof(coded));
  coded.search = search;
  coded.dropped = INT32_MIN;
  int rc = allocate(&coded), done = 0;
  if (rc == SQLITE_OK) rc = open_codes(&coded);
  if (rc == SQLITE_OK) rc = score_all(&coded);
  if (rc == SQLITE_OK) {
    estimate(&coded);
    if (coded.known || coded.dropped == INT32_MIN) rc = compare_pool(&coded);
    done = coded.dropped == INT32_MIN || coded.dropped < least_score(&coded);
  }
  free_coded(&coded);
  if (rc == SQLITE_NOTFOUND) rc = SQLITE_OK;
  if (rc != SQLITE_OK || done) return rc;
  search_start(search);
  return search_exactly(search);
}
