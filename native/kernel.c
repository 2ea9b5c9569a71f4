/*
** Products of vectors with the instructions that the processor has.
**
** int8 products. A row x and the query q are signed. AVX-512 VNNI multiplies unsigned by signed bytes: with t = x + 128,
** which is x with its top bit turned, t.q = x.q + 128 sum(q) and t.x = x.x + 128 sum(x), so both sums are taken along.
**
** Scores of 1-bit codes. The query has signed 4-bit components, kept as four planes of bits: the sum of those where a
** code has its bits set is popcount(c & p0) + 2 popcount(c & p1) + 4 popcount(c & p2) - 8 popcount(c & p3).
*/
#include "memdb0.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_X86 1
#include <immintrin.h>
#endif
#if defined(__aarch64__) && defined(__ARM_NEON)
#define HAS_NEON 1
#include <arm_neon.h>
#endif

static void scalar_products(const int8_t *rows, int n, int dims, const int8_t *query, int32_t *dot, int32_t *norm) {
  for (int i = 0; i < n; i++, rows += dims) {
    int32_t d = 0, m = 0;
    for (int j = 0; j < dims; j++) {
      d += rows[j] * query[j];
      m += rows[j] * rows[j];
    }
    dot[i] = d;
    norm[i] = m;
  }
}

static int bits_of(uint64_t word) {
  word -= (word >> 1) & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return (int)((word * 0x0101010101010101u) >> 56);
}

static void scalar_scores(const uint8_t *codes, int n, int bytes, const uint8_t *planes, int32_t *score) {
  int stride = memdb0_plane_bytes(bytes);
  for (int i = 0; i < n; i++, codes += bytes) {
    int32_t sum = 0;
    for (int at = 0; at < bytes; at += 8) {
      uint64_t code = 0, plane;
      memcpy(&code, codes + at, (size_t)(bytes - at < 8 ? bytes - at : 8));
      for (int p = 0; p < MEMDB0_PLANES; p++) {
        memcpy(&plane, planes + p * stride + at, 8);
        sum += (p == MEMDB0_PLANES - 1 ? -8 : 1 << p) * bits_of(code & plane);
      }
    }
    score[i] = sum;
  }
}

static const Kernel scalar_kernel = {"scalar", scalar_products, scalar_scores};

#ifdef HAS_X86
#define AVX2 __attribute__((target("avx2")))

AVX2 static int32_t sum_of_8(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

AVX2 static void avx2_products(const int8_t *rows, int n, int dims, const int8_t *query, int32_t *dot, int32_t *norm) {
  int whole = dims & ~15;
  for (int i = 0; i < n; i++, rows += dims) {
    __m256i d = _mm256_setzero_si256(), m = _mm256_setzero_si256();
    for (int j = 0; j < whole; j += 16) {
      __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(rows + j)));
      __m256i q = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(query + j)));
      d = _mm256_add_epi32(d, _mm256_madd_epi16(x, q));
      m = _mm256_add_epi32(m, _mm256_madd_epi16(x, x));
    }
    dot[i] = sum_of_8(d);
    norm[i] = sum_of_8(m);
    for (int j = whole; j < dims; j++) {
      dot[i] += rows[j] * query[j];
      norm[i] += rows[j] * rows[j];
    }
  }
}

/* The planes of 32 bytes of a code, cut into their low and high halves of bytes. */
typedef struct Halves {
  __m256i low[MEMDB0_PLANES], high[MEMDB0_PLANES];
} Halves;

#define LOW_HALF _mm256_set1_epi8(15)
#define BIAS 64 /* of the weighted count of a byte, which is never below zero then */

AVX2 static Halves halves_of(const uint8_t *planes, int stride, int of_16_bytes) {
  Halves halves;
  for (int p = 0; p < MEMDB0_PLANES; p++, planes += stride) {
    __m256i plane = of_16_bytes ? _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)planes))
                                : _mm256_loadu_si256((const __m256i *)(const void *)planes);
    halves.low[p] = _mm256_and_si256(plane, LOW_HALF);
    halves.high[p] = _mm256_and_si256(_mm256_srli_epi16(plane, 4), LOW_HALF);
  }
  return halves;
}

#define INLINE static inline __attribute__((always_inline))

/* What `table` has for each byte of codes, cut into halves, and plane p. */
AVX2 INLINE __m256i looked_up(__m256i table, __m256i low, __m256i high, const Halves *halves, int p) {
  return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(low, halves->low[p])),
                         _mm256_shuffle_epi8(table, _mm256_and_si256(high, halves->high[p])));
}

/* The weighted counts of 32 bytes of codes, BIAS more for each, in four 64-bit lanes of 8 bytes. */
AVX2 INLINE __m256i avx2_counts(__m256i code, const Halves *halves) {
  const __m256i ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2,
                                        3, 2, 3, 3, 4);
  const __m256i twos = _mm256_add_epi8(ones, ones), fours = _mm256_add_epi8(twos, twos);
  const __m256i eights = _mm256_sub_epi8(_mm256_set1_epi8(BIAS / 2), _mm256_add_epi8(fours, fours));
  __m256i low = _mm256_and_si256(code, LOW_HALF), high = _mm256_and_si256(_mm256_srli_epi16(code, 4), LOW_HALF);
  __m256i first = _mm256_add_epi8(looked_up(ones, low, high, halves, 0), looked_up(twos, low, high, halves, 1));
  __m256i last = _mm256_add_epi8(looked_up(fours, low, high, halves, 2), looked_up(eights, low, high, halves, 3));
  return _mm256_sad_epu8(_mm256_add_epi8(first, last), _mm256_setzero_si256());
}

/* Adds the scores of the 32 bytes at `at` of each code; what is read behind a code meets zeroes in the planes. */
AVX2 static void avx2_add_32(const uint8_t *codes, int n, int bytes, int at, const Halves *halves, int32_t *score) {
  const uint8_t *end = codes + (size_t)n * (size_t)bytes;
  uint8_t last[32];
  codes += at;
  for (int i = 0; i < n; i++, codes += bytes) {
    const uint8_t *from = codes;
    if (end - codes < 32) {
      memset(last, 0, sizeof last);
      memcpy(last, codes, (size_t)(end - codes));
      from = last;
    }
    __m256i sum = avx2_counts(_mm256_loadu_si256((const __m256i *)(const void *)from), halves);
    __m128i s = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    score[i] += _mm_cvtsi128_si32(_mm_add_epi64(s, _mm_unpackhi_epi64(s, s))) - 32 * BIAS;
  }
}

/* The same of the 16 bytes that are left at `at`, two codes at a time. */
AVX2 static void avx2_add_16(const uint8_t *codes, int n, int bytes, int at, const Halves *halves, int32_t *score) {
  codes += at;
  for (int i = 0; i < n; i += 2, codes += 2 * bytes) {
    const __m128i one = _mm_loadu_si128((const __m128i *)(const void *)codes);
    const __m128i other = i + 1 < n ? _mm_loadu_si128((const __m128i *)(const void *)(codes + bytes)) : one;
    __m256i sum = avx2_counts(_mm256_inserti128_si256(_mm256_castsi128_si256(one), other, 1), halves);
    sum = _mm256_add_epi64(sum, _mm256_unpackhi_epi64(sum, sum));
    score[i] += _mm_cvtsi128_si32(_mm256_castsi256_si128(sum)) - 16 * BIAS;
    if (i + 1 < n) score[i + 1] += _mm_cvtsi128_si32(_mm256_extracti128_si256(sum, 1)) - 16 * BIAS;
  }
}

AVX2 static void avx2_scores(const uint8_t *codes, int n, int bytes, const uint8_t *planes, int32_t *score) {
  int stride = memdb0_plane_bytes(bytes), at = 0;
  memset(score, 0, (size_t)n * sizeof *score);
  for (; bytes - at > 16; at += 32) {
    Halves halves = halves_of(planes + at, stride, 0);
    avx2_add_32(codes, n, bytes, at, &halves, score);
  }
  if (bytes - at == 16) {
    Halves halves = halves_of(planes + at, stride, 1);
    avx2_add_16(codes, n, bytes, at, &halves, score);
  } else if (bytes > at) {
    Halves halves = halves_of(planes + at, stride, 0);
    avx2_add_32(codes, n, bytes, at, &halves, score);
  }
}

static const Kernel avx2_kernel = {"avx2", avx2_products, avx2_scores};

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vpopcntdq")))

AVX512 static __mmask64 first_bytes(int n) { return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1; }

AVX512 static void avx512_products(const int8_t *rows, int n, int dims, const int8_t *query, int32_t *dot,
                                   int32_t *norm) {
  const __m512i top = _mm512_set1_epi8((char)0x80), ones = _mm512_set1_epi8(1);
  int32_t query_sum = 0;
  for (int j = 0; j < dims; j++) query_sum += query[j];
  for (int i = 0; i < n; i++, rows += dims) {
    __m512i d = _mm512_setzero_si512(), m = _mm512_setzero_si512(), s = _mm512_setzero_si512();
    for (int j = 0; j < dims; j += 64) {
      __mmask64 mask = first_bytes(dims - j);
      __m512i x = _mm512_maskz_loadu_epi8(mask, rows + j);
      __m512i q = _mm512_maskz_loadu_epi8(mask, query + j);
      __m512i t = _mm512_xor_si512(x, top);
      d = _mm512_dpbusd_epi32(d, t, q);
      m = _mm512_dpbusd_epi32(m, t, x);
      s = _mm512_dpbusd_epi32(s, ones, x);
    }
    dot[i] = _mm512_reduce_add_epi32(d) - 128 * query_sum;
    norm[i] = _mm512_reduce_add_epi32(_mm512_sub_epi32(m, _mm512_slli_epi32(s, 7)));
  }
}

/* The sums of the lanes of eight vectors. */
AVX512 static __m512i sums_of_8(const __m512i v[8]) {
  __m512i pair[4], four[2];
  for (int i = 0; i < 4; i++) {
    pair[i] = _mm512_add_epi64(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                               _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
  }
  for (int i = 0; i < 2; i++) { /* lanes of 128 bits: those of two vectors, each with its neighbour */
    four[i] = _mm512_add_epi64(_mm512_shuffle_i64x2(pair[2 * i], pair[2 * i + 1], 0x88),
                               _mm512_shuffle_i64x2(pair[2 * i], pair[2 * i + 1], 0xdd));
  }
  return _mm512_add_epi64(_mm512_shuffle_i64x2(four[0], four[1], 0x88), _mm512_shuffle_i64x2(four[0], four[1], 0xdd));
}

/* Codes of at most 64 bytes, eight at a time: the planes stay in registers. */
AVX512 static void avx512_short_scores(const uint8_t *codes, int n, int bytes, const uint8_t *planes, int32_t *score) {
  const __mmask64 mask = first_bytes(bytes);
  const __m512i p0 = _mm512_loadu_si512(planes), p1 = _mm512_loadu_si512(planes + 64);
  const __m512i p2 = _mm512_loadu_si512(planes + 128), p3 = _mm512_loadu_si512(planes + 192);
  for (int i = 0; i < n; i += 8) {
    __m512i sums[8];
    int some = n - i < 8 ? n - i : 8;
    for (int j = 0; j < 8; j++) {
      __m512i code = _mm512_maskz_loadu_epi8(mask, codes + (size_t)(i + (j < some ? j : 0)) * (size_t)bytes);
      __m512i high = _mm512_sub_epi64(_mm512_popcnt_epi64(_mm512_and_si512(code, p2)),
                                      _mm512_slli_epi64(_mm512_popcnt_epi64(_mm512_and_si512(code, p3)), 1));
      __m512i low = _mm512_add_epi64(_mm512_popcnt_epi64(_mm512_and_si512(code, p0)),
                                     _mm512_slli_epi64(_mm512_popcnt_epi64(_mm512_and_si512(code, p1)), 1));
      sums[j] = _mm512_add_epi64(low, _mm512_slli_epi64(high, 2));
    }
    _mm256_mask_storeu_epi32(score + i, (__mmask8)((1u << some) - 1), _mm512_cvtepi64_epi32(sums_of_8(sums)));
  }
}

AVX512 static void avx512_scores(const uint8_t *codes, int n, int bytes, const uint8_t *planes, int32_t *score) {
  int stride = memdb0_plane_bytes(bytes);
  if (bytes <= 64) {
    avx512_short_scores(codes, n, bytes, planes, score);
    return;
  }
  for (int i = 0; i < n; i++, codes += bytes) {
    __m512i sum = _mm512_setzero_si512();
    for (int at = 0; at < bytes; at += 64) {
      __m512i code = _mm512_maskz_loadu_epi8(first_bytes(bytes - at), codes + at);
      __m512i counts[MEMDB0_PLANES];
      for (int p = 0; p < MEMDB0_PLANES; p++) {
        __m512i plane = _mm512_loadu_si512(planes + p * stride + at);
        counts[p] = _mm512_slli_epi64(_mm512_popcnt_epi64(_mm512_and_si512(code, plane)), (unsigned)p);
      }
      __m512i positive = _mm512_add_epi64(_mm512_add_epi64(counts[0], counts[1]), counts[2]);
      sum = _mm512_add_epi64(sum, _mm512_sub_epi64(positive, counts[3]));
    }
    score[i] = (int32_t)_mm512_reduce_add_epi64(sum);
  }
}

static const Kernel avx512_kernel = {"avx512", avx512_products, avx512_scores};

static const Kernel *fastest(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vpopcntdq")) {
    return &avx512_kernel;
  }
  return __builtin_cpu_supports("avx2") ? &avx2_kernel : &scalar_kernel;
}

static const Kernel *named(const char *name) {
  const Kernel *best = fastest();
  if (strcmp(name, "avx512") == 0) return best == &avx512_kernel ? best : 0;
  if (strcmp(name, "avx2") == 0) return best == &scalar_kernel ? 0 : &avx2_kernel;
  return 0;
}
#endif

#ifdef HAS_NEON
static void neon_products(const int8_t *rows, int n, int dims, const int8_t *query, int32_t *dot, int32_t *norm) {
  int whole = dims & ~15;
  for (int i = 0; i < n; i++, rows += dims) {
    int32x4_t d = vdupq_n_s32(0), m = vdupq_n_s32(0);
    for (int j = 0; j < whole; j += 16) {
      int8x16_t x = vld1q_s8(rows + j), q = vld1q_s8(query + j);
      d = vpadalq_s16(d, vmull_s8(vget_low_s8(x), vget_low_s8(q)));
      d = vpadalq_s16(d, vmull_s8(vget_high_s8(x), vget_high_s8(q)));
      m = vpadalq_s16(m, vmull_s8(vget_low_s8(x), vget_low_s8(x)));
      m = vpadalq_s16(m, vmull_s8(vget_high_s8(x), vget_high_s8(x)));
    }
    dot[i] = vaddvq_s32(d);
    norm[i] = vaddvq_s32(m);
    for (int j = whole; j < dims; j++) {
      dot[i] += rows[j] * query[j];
      norm[i] += rows[j] * rows[j];
    }
  }
}

static void neon_scores(const uint8_t *codes, int n, int bytes, const uint8_t *planes, int32_t *score) {
  int stride = memdb0_plane_bytes(bytes);
  uint8_t tail[16] = {0};
  for (int i = 0; i < n; i++, codes += bytes) {
    int32_t sum = 0;
    for (int at = 0; at < bytes; at += 16) {
      const uint8_t *block = codes + at;
      if (bytes - at < 16) {
        memcpy(tail, block, (size_t)(bytes - at));
        block = tail;
      }
      uint8x16_t code = vld1q_u8(block);
      for (int p = 0; p < MEMDB0_PLANES; p++) {
        int32_t count = vaddvq_u8(vcntq_u8(vandq_u8(code, vld1q_u8(planes + p * stride + at))));
        sum += (p == MEMDB0_PLANES - 1 ? -8 : 1 << p) * count;
      }
    }
    score[i] = sum;
  }
}

static const Kernel neon_kernel = {"neon", neon_products, neon_scores};
static const Kernel *fastest(void) { return &neon_kernel; }
static const Kernel *named(const char *name) { return strcmp(name, "neon") == 0 ? &neon_kernel : 0; }
#endif

#if !defined(HAS_X86) && !defined(HAS_NEON)
static const Kernel *fastest(void) { return &scalar_kernel; }
static const Kernel *named(const char *name) {
  (void)name;
  return 0;
}
#endif

const Kernel *memdb0_kernel(const char *name) {
  if (name == 0) return fastest();
  return strcmp(name, "scalar") == 0 ? &scalar_kernel : named(name);
}
