/*
** Every kernel that this processor has, against sums taken in the plainest way: all widths up to 300 and some up to the
** greatest, random components and extreme ones. What is read or written lies against a page that must not be touched,
** with its end and then with its start. Prints the kernels compared and the number of sums; exits with 1 on a difference.
*/
#define _DEFAULT_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memdb0.h"

#define MOST_ROWS 19
#define WIDE 300

enum { RANDOM, LEAST, MOST, LEAST_AND_MOST, ONES, ZERO, SMALL, FILLS };
#define EVERY_PAIR 96 /* up to this width every fill meets every other one */

static uint64_t state = 0x9e3779b97f4a7c15u;
static long sums;

static uint32_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32);
}

/* Memory between two pages that cannot be touched. */
typedef struct Fenced {
  uint8_t *page, *data;
  size_t all;
} Fenced;

static Fenced fenced(size_t size, int at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
  Fenced one = {.all = room + 2 * page};
  one.page = mmap(0, one.all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (one.page == MAP_FAILED || mprotect(one.page, page, PROT_NONE) != 0 ||
      mprotect(one.page + page + room, page, PROT_NONE) != 0) {
    perror("fenced");
    exit(2);
  }
  one.data = one.page + page + (at_end ? room - size : 0);
  return one;
}

static void release(Fenced one) { munmap(one.page, one.all); }

static void fill(uint8_t *data, size_t size, int how) {
  for (size_t i = 0; i < size; i++) {
    uint32_t dice = next_random();
    data[i] = (uint8_t)(how == RANDOM ? dice
                        : how == LEAST ? 0x80
                        : how == MOST ? 0x7f
                        : how == LEAST_AND_MOST ? (dice & 1 ? 0x80 : 0x7f)
                        : how == ONES ? 0xff
                        : how == ZERO ? 0
                                      : dice % 3 - 1);
  }
}

static void differs(const Kernel *kernel, const char *what, int n, int width, long long expected, long long found) {
  printf("%s: %s of %d rows, width %d: %lld expected, %lld found\n", kernel->name, what, n, width, expected, found);
  exit(1);
}

static void compare_products(const Kernel *kernel, int n, int dims, int rows_are, int query_is, int at_end) {
  Fenced rows = fenced((size_t)n * (size_t)dims, at_end), query = fenced((size_t)dims, at_end);
  Fenced dot = fenced((size_t)n * 4, at_end), norm = fenced((size_t)n * 4, at_end);
  fill(rows.data, (size_t)n * (size_t)dims, rows_are);
  fill(query.data, (size_t)dims, query_is);
  const int8_t *row = (const int8_t *)rows.data, *q = (const int8_t *)query.data;
  kernel->products(row, n, dims, q, (int32_t *)dot.data, (int32_t *)norm.data);
  for (int i = 0; i < n; i++, row += dims) {
    long long d = 0, m = 0;
    for (int j = 0; j < dims; j++) d += row[j] * q[j], m += row[j] * row[j];
    if (((int32_t *)dot.data)[i] != d) differs(kernel, "product", n, dims, d, ((int32_t *)dot.data)[i]);
    if (((int32_t *)norm.data)[i] != m) differs(kernel, "norm", n, dims, m, ((int32_t *)norm.data)[i]);
    sums += 2;
  }
  release(rows), release(query), release(dot), release(norm);
}

static int bit(const uint8_t *bits, int i) { return bits[i / 8] >> i % 8 & 1; }

static void compare_scores(const Kernel *kernel, int n, int bytes, int codes_are, int planes_are, int at_end) {
  int stride = memdb0_plane_bytes(bytes);
  Fenced codes = fenced((size_t)n * (size_t)bytes, at_end), score = fenced((size_t)n * 4, at_end);
  Fenced planes = fenced((size_t)stride * MEMDB0_PLANES, at_end);
  fill(codes.data, (size_t)n * (size_t)bytes, codes_are);
  fill(planes.data, (size_t)stride * MEMDB0_PLANES, ZERO);
  for (int p = 0; p < MEMDB0_PLANES; p++) fill(planes.data + p * stride, (size_t)bytes, planes_are);
  kernel->scores(codes.data, n, bytes, planes.data, (int32_t *)score.data);
  for (int i = 0; i < n; i++) {
    long long sum = 0;
    for (int j = 0; j < 8 * bytes; j++) {
      int value = 0;
      for (int p = 0; p < MEMDB0_PLANES; p++) {
        value += bit(planes.data + p * stride, j) * (p == MEMDB0_PLANES - 1 ? -8 : 1 << p);
      }
      sum += bit(codes.data + (size_t)i * (size_t)bytes, j) * value;
    }
    if (((int32_t *)score.data)[i] != sum) differs(kernel, "score", n, bytes, sum, ((int32_t *)score.data)[i]);
    sums++;
  }
  release(codes), release(score), release(planes);
}

static void compare(const Kernel *kernel, int width, int bytes) {
  for (int a = 0; a < FILLS; a++) {
    for (int b = 0; b < FILLS; b++) {
      if (width > EVERY_PAIR && a != RANDOM && a != b) continue;
      int n = 1 + (int)(next_random() % MOST_ROWS), at_end = (int)(next_random() & 1);
      compare_products(kernel, n, width, a, b, at_end);
      if (bytes <= MEMDB0_MAX_DIMENSIONS / 8) compare_scores(kernel, n, bytes, a, b, !at_end);
    }
  }
}

int main(void) {
  static const char *const names[] = {"scalar", "avx2", "avx512", "neon"};
  static const int wide[] = {383, 384, 511, 512, 768, 1023, 1024, 1536, 4095, 8176, 8191, MEMDB0_MAX_DIMENSIONS};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const Kernel *kernel = memdb0_kernel(names[i]);
    if (kernel == 0) continue;
    for (int width = 1; width <= WIDE; width++) compare(kernel, width, width);
    for (size_t j = 0; j < sizeof wide / sizeof *wide; j++) compare(kernel, wide[j], (wide[j] + 7) / 8);
    printf("%s ", kernel->name);
  }
  printf("%ld sums\n", sums);
  return 0;
}
