/*
** A driver for fuzz_*.c where the compiler has none: each argument is a file, and its bytes are one input. With
** -runs=N, as libFuzzer has it, N random changes of each follow, always the same ones.
*/
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t state = 20240229u;

static uint32_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

/* The bytes of the file. NULL if it fails. */
static uint8_t *read_file(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  uint8_t *data = 0;
  long end = -1;
  if (file == 0) return 0;
  if (fseek(file, 0, SEEK_END) == 0) end = ftell(file);
  if (end >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    *size = (size_t)end;
    data = malloc(*size + 1);
    if (data != 0 && fread(data, 1, *size, file) != *size) {
      free(data);
      data = 0;
    }
  }
  fclose(file);
  return data;
}

/* Run a copy of exactly its size, so that a read beyond it is found; changed or cut if `changes`. */
static int run_copy(const uint8_t *data, size_t size, uint32_t changes) {
  uint8_t *copy = malloc(size ? size : 1);
  if (copy == 0) return 0;
  memcpy(copy, data, size);
  for (; changes && size; changes--) {
    size_t at = next_random() % size;
    switch (next_random() % 8) {
      case 0: size = at; break;
      case 1: copy[at] = (uint8_t)(1u << next_random() % 8); break;
      case 2: copy[at] = (uint8_t)(next_random() & 1 ? 255 : 0); break;
      case 3: copy[at] ^= (uint8_t)(1u << next_random() % 8); break;
      case 4: memcpy(copy + at, data, size - at); break;
      default: copy[at] = (uint8_t)(next_random() >> 24);
    }
  }
  uint8_t *exact = malloc(size ? size : 1);
  if (exact != 0) memcpy(exact, copy, size);
  free(copy);
  if (exact == 0) return 0;
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
  return 1;
}

int main(int n, char **names) {
  long runs = 0, inputs = 0;
  for (int i = 1; i < n; i++) {
    size_t size = 0;
    if (strncmp(names[i], "-runs=", 6) == 0) {
      runs = strtol(names[i] + 6, 0, 10);
      continue;
    }
    uint8_t *data = read_file(names[i], &size);
    int good = data != 0 && run_copy(data, size, 0);
    for (long run = 0; good && run < runs; run++) good = run_copy(data, size, 1 + next_random() % 6);
    free(data);
    if (!good) {
      fprintf(stderr, "%s cannot be read\n", names[i]);
      return 1;
    }
    inputs += 1 + runs;
  }
  printf("%ld inputs\n", inputs);
  return 0;
}
