// Log every kernel of a CUDA program through CUPTI: start in ns, duration in ns, name.
//
//   gcc -shared -fPIC -I $CUDA/include -I $CUDA/extras/CUPTI/include kernels.c -o kernels.so -L $CUDA/lib64 -lcupti
//   CUDA_INJECTION64_PATH=$PWD/kernels.so KERNELS=FILE program
//
// Kernels of a CUDA graph are logged one by one.
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *file;

static void request(uint8_t **buffer, size_t *size, size_t *records) {
  *size = 8 << 20;
  *buffer = aligned_alloc(8, *size);
  *records = 0;
}

static void complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  CUpti_Activity *record = NULL;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    CUpti_ActivityKernel9 *k = (CUpti_ActivityKernel9 *)record;
    fprintf(file, "%llu,%llu,%d,%s\n", (unsigned long long)k->start, (unsigned long long)(k->end - k->start), k->gridX * k->gridY * k->gridZ, k->name);
  }
  free(buffer);
}

static void finish(void) {
  cuptiActivityFlushAll(1);
  fclose(file);
}

int InitializeInjection(void) {
  const char *path = getenv("KERNELS");
  file = fopen(path ? path : "kernels.csv", "w");
  if (!file) return 0;
  if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) return 0;
  atexit(finish);
  return 1;
}
