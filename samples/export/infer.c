/* Recognises the test images of handwritten digits with the exported network and prints its accuracy. C99; needs digits.h and digits.so only. */
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { PIXELS = 64, BATCH = 100 };

/* Memory aligned for a workspace; *block is what to free. */
static void *aligned(size_t bytes, void **block) {
  *block = malloc(bytes + 64);
  return *block ? (void *)(((uintptr_t)*block + 63) / 64 * 64) : NULL;
}

int main(void) {
  static float x[BATCH * PIXELS], y[BATCH * 10];
  static int32_t labels[BATCH], found[BATCH];
  FILE *images = fopen("images.bin", "rb"), *digits = fopen("labels.bin", "rb");
  digits_run_inputs in = { x };
  digits_run_outputs out = { y, found };
  digits_run_sizes sizes;
  sg_call call = { 0 };
  long total = 0, right = 0;
  void *block;
  if (images == NULL || digits == NULL) { puts("images.bin or labels.bin is missing: run make_models.py first"); return 1; }
  sizes.batch = BATCH;
  call.workspace_bytes = digits_run_workspace_bytes(&sizes);
  call.workspace = aligned((size_t)call.workspace_bytes, &block);
  if (call.workspace == NULL) { puts("out of memory"); return 1; }
  for (;;) {
    size_t n = fread(x, sizeof *x * PIXELS, BATCH, images), k;
    int32_t status;
    if (n == 0 || fread(labels, sizeof *labels, n, digits) != n) break;
    sizes.batch = (int64_t)n;                        /* the last batch is smaller: the size is an argument */
    status = digits_run(&in, &out, &sizes, &call);
    if (status != SG_OK) {
      char text[512];
      puts(digits_describe(status, &call, text, sizeof text));
      return 1;
    }
    for (k = 0; k < n; k++) right += found[k] == labels[k];
    total += (long)n;
  }
  printf("%ld of %ld images right: accuracy %.2f %%\n", right, total, 100.0 * (double)right / (double)(total ? total : 1));
  fclose(images);
  fclose(digits);
  free(block);
  return total == 0;
}
