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
** scored, and the vectors behind the best FIRST ones compared exactly, which tells how near the k-th nearest is at most.
** Then those are compared whose score is not so low that a vector that enters the k nearest would have more than
** DEVIATIONS standard deviations of noise. If these are a large share of all, or if scores tell nothing, the whole table
** is compared exactly.
*/
#include "search.h"

#include <math.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define PART_BYTES 4050  /* of codes that stay on a page of 4096 */
#define SAMPLES 12       /* parts from which slope and deviation are estimated */
#define LEAST_SAMPLE 128 /* vectors without which they are not */
#define DEVIATIONS 2.0   /* at the last place one in 44 is missed, at the others fewer */
#define FIRST 512        /* candidates that are compared first */
#define FIRST_OF_K 4     /* and for each row that is asked for */
#define GROUP 16         /* scores of which the best one is kept: most are passed over together */
#define MOST_SHARE 4     /* of so many rows one may be a candidate */

/* Slots of a chunk whose scores were kept. */
typedef struct Part {
  i64 chunk;
  int first, n;
} Part;

typedef struct Coded {
  Search *search;
  sqlite3_stmt *codes; /* code_id, codes */
  i64 code_id;         /* of its row; INT64_MAX: it has none */
  int code_bytes, chunk_parts, part_slots;
  uint8_t *planes;
  /* What was scored, in the order of the file: the parts, and one after the other the scores of their slots. */
  Part *parts;
  int32_t *scores; /* DEAD: of a slot that is not looked at */
  int32_t *best;   /* of each GROUP of a part */
  i64 n_parts, room, n_scores, n_groups;
  Candidate *candidates;
  /* Sums over the sample: x the cosine, y the score. */
  i64 part_step;
  double count, x, y, xx, xy, yy;
  double slope, offset, deviation;
  int known; /* whether these are */
} Coded;

#define DEAD INT32_MIN

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
  coded->chunk_parts = (search->shadow.slots + most - 1) / most;
  coded->part_slots = (search->shadow.slots + coded->chunk_parts - 1) / coded->chunk_parts;
  size_t planes = (size_t)memdb0_plane_bytes(coded->code_bytes) * MEMDB0_PLANES;
  coded->planes = sqlite3_malloc64(planes);
  if (!coded->planes) return SQLITE_NOMEM;
  memset(coded->planes, 0, planes);
  cut_query(coded);
  return SQLITE_OK;
}

static void free_coded(Coded *coded) {
  sqlite3_finalize(coded->codes);
  sqlite3_free(coded->planes);
  sqlite3_free(coded->parts);
  sqlite3_free(coded->scores);
  sqlite3_free(coded->best);
  sqlite3_free(coded->candidates);
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

static int sample_part(Coded *coded, i64 chunk, int first, int n, const int32_t *scores) {
  int32_t dot[SEARCH_GROUP], norm[SEARCH_GROUP];
  Search *search = coded->search;
  for (int from = 0; from < n; from += SEARCH_GROUP) {
    int some = n - from < SEARCH_GROUP ? n - from : SEARCH_GROUP;
    int rc = shadow_read(&search->shadow, SHADOW_VECTORS, chunk, first + from, some, search->rows);
    if (rc != SQLITE_OK) return rc;
    search->kernel->products(search->rows, some, search->shadow.dims, search->query, dot, norm);
    for (int i = 0; i < some; i++) {
      if (is_live(search->shadow.validity, first + from + i)) sample(coded, scores[from + i], dot[i], norm[i]);
    }
  }
  return SQLITE_OK;
}

static int groups_of(int n) { return (n + GROUP - 1) / GROUP; }

static int make_room(Coded *coded) {
  if (coded->n_parts < coded->room) return SQLITE_OK;
  i64 room = coded->room ? 2 * coded->room : 256;
  sqlite3_uint64 slots = (sqlite3_uint64)(room * coded->part_slots);
  sqlite3_uint64 groups = (sqlite3_uint64)(room * groups_of(coded->part_slots));
  Part *parts = sqlite3_realloc64(coded->parts, sizeof(Part) * (sqlite3_uint64)room);
  if (parts) coded->parts = parts;
  int32_t *scores = sqlite3_realloc64(coded->scores, sizeof(int32_t) * slots);
  if (scores) coded->scores = scores;
  int32_t *best = sqlite3_realloc64(coded->best, sizeof(int32_t) * groups);
  if (best) coded->best = best;
  if (!parts || !scores || !best) return SQLITE_NOMEM;
  coded->room = room;
  return SQLITE_OK;
}

/* Mark the slots that are not looked at. */
static void mark_dead(const uint8_t *live, int first, int n, int32_t *scores) {
  for (int i = 0; i < n; i++) {
    int slot = first + i;
    if (slot % 8 == 0 && n - i >= 8 && live[slot >> 3] == 255) i += 7;
    else if (!is_live(live, slot)) scores[i] = DEAD;
  }
}

static void keep_part(Coded *coded, i64 chunk, int first, int n) {
  int32_t *scores = coded->scores + coded->n_scores, *best = coded->best + coded->n_groups;
  mark_dead(coded->search->live, first, n, scores);
  for (int i = 0; i < n; i += GROUP) {
    int32_t highest = scores[i];
    int end = n - i < GROUP ? n : i + GROUP;
    for (int j = i + 1; j < end; j++) highest = scores[j] > highest ? scores[j] : highest;
    *best++ = highest;
  }
  coded->parts[coded->n_parts++] = (Part){chunk, first, n};
  coded->n_scores += n;
  coded->n_groups += groups_of(n);
}

static int score_part(Coded *coded, i64 chunk, int first, int n) {
  Search *search = coded->search;
  const uint8_t *codes = sqlite3_column_blob(coded->codes, 1);
  if (codes == 0 || sqlite3_column_bytes(coded->codes, 1) != n * coded->code_bytes) {
    return shadow_corrupt(&search->shadow, "the codes", chunk);
  }
  int rc = make_room(coded);
  if (rc != SQLITE_OK) return rc;
  int32_t *scores = coded->scores + coded->n_scores;
  search->kernel->scores(codes, n, coded->code_bytes, coded->planes, scores);
  if (coded->n_parts % coded->part_step == 0) rc = sample_part(coded, chunk, first, n, scores);
  keep_part(coded, chunk, first, n);
  return rc;
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
  i64 parts = search->shadow.last_chunk * coded->chunk_parts;
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

/* Bring the n-th of the highest to its place (Hoare's selection). */
static int32_t nth_highest(int32_t *values, i64 count, i64 n) {
  i64 low = 0, high = count - 1;
  while (low < high) {
    int32_t pivot = values[low + (high - low) / 2];
    i64 i = low, j = high;
    while (i <= j) {
      while (values[i] > pivot) i++;
      while (values[j] < pivot) j--;
      if (i > j) break;
      int32_t other = values[i];
      values[i++] = values[j];
      values[j--] = other;
    }
    if (n <= j) high = j;
    else if (n >= i) low = i;
    else break;
  }
  return values[n];
}

/* A score that at least n have, and not many more, as they stand in as many groups; DEAD if there are no more groups. */
static int score_of_best(const Coded *coded, i64 n, int32_t *score) {
  *score = DEAD;
  if (coded->n_groups <= n) return SQLITE_OK;
  int32_t *values = sqlite3_malloc64(sizeof(int32_t) * (sqlite3_uint64)coded->n_groups);
  if (values == 0) return SQLITE_NOMEM;
  memcpy(values, coded->best, sizeof(int32_t) * (size_t)coded->n_groups);
  *score = nth_highest(values, coded->n_groups, n - 1);
  sqlite3_free(values);
  return SQLITE_OK;
}

/* The candidates of scores from `least` on and below `end`; how many, though no more than `most` are put down. */
static i64 list_scored(Coded *coded, int32_t least, int32_t end, i64 most) {
  const int32_t *scores = coded->scores, *best = coded->best;
  i64 n = 0;
  for (i64 part = 0; part < coded->n_parts; part++) {
    Part of = coded->parts[part];
    for (int first = 0; first < of.n; first += GROUP) {
      int last = of.n - first < GROUP ? of.n : first + GROUP;
      if (*best++ < least) continue;
      for (int i = first; i < last; i++) {
        if (scores[i] < least || scores[i] >= end) continue;
        if (n++ < most) coded->candidates[n - 1] = (Candidate){of.chunk, of.first + i};
      }
    }
    scores += of.n;
  }
  return n;
}

/* Compare the vectors of scores from `least` on and below `end`; whether they are not too many for that. */
static int compare_scored(Coded *coded, int32_t least, int32_t end, int *few) {
  i64 n = list_scored(coded, least, end, 0);
  *few = n <= coded->n_scores / MOST_SHARE;
  if (!*few) return SQLITE_OK;
  sqlite3_free(coded->candidates);
  coded->candidates = sqlite3_malloc64(sizeof(Candidate) * ((sqlite3_uint64)n + 1));
  if (coded->candidates == 0) return SQLITE_NOMEM;
  list_scored(coded, least, end, n);
  return search_candidates(coded->search, coded->candidates, n);
}

/* Whether all that may be among the k nearest was compared. */
static int compare_best(Coded *coded, int *all) {
  i64 k = coded->search->k;
  int32_t end;
  int rc = score_of_best(coded, k * FIRST_OF_K > FIRST ? k * FIRST_OF_K : FIRST, &end);
  *all = coded->n_scores == 0;
  if (rc != SQLITE_OK || end == DEAD) return rc;
  rc = compare_scored(coded, end, INT32_MAX, all);
  if (rc != SQLITE_OK || !*all) return rc;
  double least = ceil(least_score(coded));
  if (least >= end) return SQLITE_OK;
  return compare_scored(coded, least > DEAD ? (int32_t)least : DEAD + 1, end, all);
}

int search_coded(Search *search) {
  Coded coded;
  memset(&coded, 0, sizeof(coded));
  coded.search = search;
  int rc = allocate(&coded), all = 0;
  if (rc == SQLITE_OK) rc = open_codes(&coded);
  if (rc == SQLITE_OK) rc = score_all(&coded);
  if (rc == SQLITE_OK) {
    estimate(&coded);
    if (coded.known || coded.n_scores == 0) rc = compare_best(&coded, &all);
  }
  free_coded(&coded);
  if (rc == SQLITE_NOTFOUND) rc = SQLITE_OK;
  if (rc != SQLITE_OK || all) return rc;
  search_start(search);
  return search_exactly(search);
}
