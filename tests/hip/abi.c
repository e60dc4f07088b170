/* Judges a library with HIP's C ABI by AMD's own header. Usage: abi PART FIXTURES. Each part counts its checks and prints the count;
 * the first check that does not hold ends the process with the line. It deliberately knows nothing of who made the library. Here are what
 * every program needs and what goes wrong in it; runtime.c has the rest of the runtime, graphs.c capture and graphs. */
#include "abi.h"

int checks;
const char *fixtures;

void *read_file(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", fixtures, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    void *data = malloc(bytes);
    HOLDS(fread(data, 1, bytes, file) == (size_t)bytes);
    fclose(file);
    return data;
}

hipFunction_t kernel(const char *object, const char *name, hipModule_t *module) {
    hipFunction_t function = NULL;
    void *image = read_file(object);
    OK(hipModuleLoadData(module, image));
    free(image); /* the library must not need it any more once loaded */
    OK(hipModuleGetFunction(&function, *module, name));
    return function;
}

void *uploaded(const void *data, size_t bytes) {
    void *buffer = NULL;
    OK(hipMalloc(&buffer, bytes));
    OK(hipMemcpy(buffer, data, bytes, hipMemcpyHostToDevice));
    return buffer;
}

static void device(void) {
    int value = -1, count = -1;
    OK(hipInit(0));
    STATUS(hipInit(1), hipErrorInvalidValue);
    OK(hipRuntimeGetVersion(&value));
    HOLDS(value / 10000000 == 6 && value / 100000 % 100 >= 4); /* the first that knows gfx1201 */
    OK(hipDriverGetVersion(&value));
    OK(hipGetDeviceCount(&count));
    HOLDS(count == 1);
    STATUS(hipGetDeviceCount(NULL), hipErrorInvalidValue);
    OK(hipSetDevice(0));
    STATUS(hipSetDevice(1), hipErrorInvalidDevice);
    STATUS(hipSetDevice(-1), hipErrorInvalidDevice);
    OK(hipGetDevice(&value));
    HOLDS(value == 0);
    hipDevice_t handle = -1;
    OK(hipDeviceGet(&handle, 0));
    STATUS(hipDeviceGet(&handle, 7), hipErrorInvalidDevice);

    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0));
    HOLDS(value == 32);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
    HOLDS(value == 32);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxThreadsPerBlock, 0));
    HOLDS(value == 1024);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxSharedMemoryPerBlock, 0));
    HOLDS(value == 65536);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeIntegrated, 0));
    HOLDS(value == 0);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeComputeCapabilityMajor, 0));
    HOLDS(value == 12);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxGridDimX, 0));
    HOLDS(value == 0x7fffffff);
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxGridDimY, 0));
    HOLDS(value == 65535);
    STATUS(hipDeviceGetAttribute(&value, (hipDeviceAttribute_t)5000, 0), hipErrorInvalidValue);
    STATUS(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 1), hipErrorInvalidDevice);
    STATUS(hipDeviceGetAttribute(NULL, hipDeviceAttributeWarpSize, 0), hipErrorInvalidValue);

    char name[64], shorter[6];
    OK(hipDeviceGetName(name, sizeof name, 0));
    HOLDS(strstr(name, "zynfer emulator"));
    memset(shorter, 'x', sizeof shorter);
    OK(hipDeviceGetName(shorter, sizeof shorter, 0));
    HOLDS(strlen(shorter) == 5 && !strncmp(name, shorter, 5));
    STATUS(hipDeviceGetName(name, 0, 0), hipErrorInvalidValue);
    STATUS(hipDeviceGetName(NULL, 8, 0), hipErrorInvalidValue);

    size_t total = 0, free_bytes = 0, same = 0;
    OK(hipDeviceTotalMem(&total, 0));
    OK(hipMemGetInfo(&free_bytes, &same));
    HOLDS(same == total && free_bytes <= total && free_bytes > 0);
    hipDeviceProp_t properties;
    memset(&properties, 0xff, sizeof properties);
    OK(hipGetDeviceProperties(&properties, 0));
    HOLDS(!strcmp(properties.gcnArchName, "gfx1201"));
    HOLDS(!strcmp(properties.name, name));
    HOLDS(properties.totalGlobalMem == total && properties.sharedMemPerBlock == 65536);
    HOLDS(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024 && properties.multiProcessorCount == 32);
    HOLDS(properties.maxThreadsDim[0] == 1024 && properties.maxThreadsDim[2] == 1024);
    HOLDS(properties.maxGridSize[0] == 0x7fffffff && properties.maxGridSize[2] == 65535);
    HOLDS(properties.major == 12 && properties.minor == 0 && properties.integrated == 0);
    HOLDS(properties.memoryBusWidth == 256 && properties.l2CacheSize == 8 << 20);
    HOLDS(properties.maxThreadsPerMultiProcessor == 2048);
    STATUS(hipGetDeviceProperties(&properties, 1), hipErrorInvalidDevice);
    STATUS(hipGetDeviceProperties(NULL, 0), hipErrorInvalidValue);
    /* The versioned struct of ROCm 6: 1472 bytes, gcnArchName at 1160, totalGlobalMem at 288. */
    unsigned char versioned[1472 + 8];
    memset(versioned, 0xa5, sizeof versioned);
    OK(hipGetDevicePropertiesR0600((hipDeviceProp_tR0600 *)versioned, 0));
    HOLDS(!strcmp((char *)versioned + 1160, "gfx1201"));
    HOLDS(!memcmp(versioned + 288, &total, sizeof total));
    HOLDS(versioned[1471] == 0 && versioned[1472] == 0xa5 && versioned[1479] == 0xa5);

    /* The last error is this thread's last failure: it survives a success, and reading it clears it. */
    (void)hipGetLastError();
    HOLDS(hipPeekAtLastError() == hipSuccess);
    (void)hipSetDevice(3);
    OK(hipGetDevice(&value));
    HOLDS(hipPeekAtLastError() == hipErrorInvalidDevice);
    HOLDS(hipGetLastError() == hipErrorInvalidDevice);
    HOLDS(hipGetLastError() == hipSuccess);
    HOLDS(!strcmp(hipGetErrorName(hipErrorLaunchFailure), "hipErrorLaunchFailure"));
    HOLDS(!strcmp(hipGetErrorName(hipErrorNoBinaryForGpu), "hipErrorNoBinaryForGpu"));
    HOLDS(!strcmp(hipGetErrorName((hipError_t)12345), "hipErrorUnknown"));
    HOLDS(strlen(hipGetErrorString(hipErrorOutOfMemory)) > 0);
}

static void memory(void) {
    unsigned char *buffer = NULL, *other = NULL, host[256], back[256];
    size_t free_before = 0, free_after = 0, total = 0;
    for (int i = 0; i < 256; i++) host[i] = (unsigned char)(i * 7 + 1);
    OK(hipMalloc((void **)&buffer, 256));
    OK(hipMalloc((void **)&other, 256));
    HOLDS(buffer && other && buffer != other && (uintptr_t)buffer % 256 == 0 && (uintptr_t)other % 256 == 0);
    STATUS(hipMalloc(NULL, 16), hipErrorInvalidValue);
    void *nothing = (void *)1;
    OK(hipMalloc(&nothing, 0));
    HOLDS(nothing == NULL);
    OK(hipFree(NULL));
    OK(hipMemGetInfo(&free_before, &total));
    STATUS(hipMalloc(&nothing, total + 1), hipErrorOutOfMemory);
    STATUS(hipMalloc(&nothing, SIZE_MAX), hipErrorOutOfMemory);

    /* Copies, whole and at every kind of edge. */
    OK(hipMemcpy(buffer, host, 256, hipMemcpyHostToDevice));
    OK(hipMemcpy(other, buffer, 256, hipMemcpyDeviceToDevice));
    memset(back, 0, 256);
    OK(hipMemcpy(back, other, 256, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(back, host, 256));
    memset(back, 0, 256);
    OK(hipMemcpy(back + 3, buffer + 5, 100, hipMemcpyDeviceToHost));
    HOLDS(back[2] == 0 && !memcmp(back + 3, host + 5, 100) && back[103] == 0);
    OK(hipMemcpy(buffer + 255, host, 1, hipMemcpyHostToDevice));
    OK(hipMemcpy(back, buffer + 254, 2, hipMemcpyDefault));
    HOLDS(back[0] == host[254] && back[1] == host[0]);
    OK(hipMemcpy(back, host, 256, hipMemcpyHostToHost));
    OK(hipMemcpy(buffer, host, 256, hipMemcpyDefault));
    OK(hipMemcpy(buffer + 1, buffer, 255, hipMemcpyDeviceToDevice)); /* overlapping: as memmove */
    OK(hipMemcpy(back, buffer, 256, hipMemcpyDeviceToHost));
    HOLDS(back[0] == host[0] && !memcmp(back + 1, host, 255));

    /* One byte too far, before the start, at an address of the host, of no one, of no direction. */
    STATUS(hipMemcpy(buffer + 1, host, 256, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy(back, buffer + 1, 256, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipMemcpy(buffer - 1, host, 2, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy(buffer + 256, host, 1, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy(other, buffer + 1, 256, hipMemcpyDeviceToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy(back, host, 16, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipMemcpy(back, host, 16, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy(buffer, NULL, 16, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy(NULL, buffer, 16, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipMemcpy(buffer, host, 16, (hipMemcpyKind)9), hipErrorInvalidMemcpyDirection);
    STATUS(hipMemcpy(buffer, host, SIZE_MAX, hipMemcpyHostToDevice), hipErrorInvalidValue);
    OK(hipMemcpy(buffer + 1000, host, 0, hipMemcpyHostToDevice)); /* nothing to copy, nothing wrong */
    OK(hipMemcpy(back, buffer, 256, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(back + 1, host, 255)); /* a refused copy changed nothing */
    OK(hipMemcpyHtoD(buffer, host, 256));
    OK(hipMemcpyDtoD(other, buffer, 256));
    OK(hipMemcpyDtoH(back, other, 256));
    HOLDS(!memcmp(back, host, 256));
    OK(hipMemcpyHtoDAsync(buffer, host, 8, 0));
    OK(hipMemcpyDtoDAsync(other, buffer, 8, 0));
    OK(hipMemcpyDtoHAsync(back, other, 8, 0));
    OK(hipMemcpyAsync(back, other, 8, hipMemcpyDeviceToHost, 0));

    /* Fills of 8, 16 and 32 bits, at odd places and at the edge. */
    OK(hipMemset(buffer, 0x15a, 256)); /* the low byte counts */
    OK(hipMemset(buffer + 3, 0, 5));
    OK(hipMemcpy(back, buffer, 256, hipMemcpyDeviceToHost));
    HOLDS(back[0] == 0x5a && back[2] == 0x5a && back[3] == 0 && back[7] == 0 && back[8] == 0x5a && back[255] == 0x5a);
    OK(hipMemsetD32(buffer, 0x01020304, 64));
    OK(hipMemsetD16(buffer + 2, 0xbeef, 1));
    OK(hipMemsetD8(buffer + 255, 9, 1));
    OK(hipMemcpy(back, buffer, 256, hipMemcpyDeviceToHost));
    HOLDS(back[0] == 4 && back[1] == 3 && back[2] == 0xef && back[3] == 0xbe && back[4] == 4 && back[252] == 4 && back[255] == 9);
    OK(hipMemsetAsync(buffer, 0, 256, 0));
    OK(hipMemsetD32Async(buffer, 1, 64, 0));
    OK(hipMemsetD8Async(buffer, 1, 64, 0));
    STATUS(hipMemset(buffer + 1, 0, 256), hipErrorInvalidValue);
    STATUS(hipMemsetD32(buffer, 0, 65), hipErrorInvalidValue);
    STATUS(hipMemsetD32(buffer + 2, 0, 1), hipErrorInvalidValue);
    STATUS(hipMemsetD32(buffer, 0, SIZE_MAX / 2), hipErrorInvalidValue);
    STATUS(hipMemset(host, 0, 16), hipErrorInvalidValue);
    OK(hipMemset(NULL, 0, 0));

    hipDeviceptr_t base = NULL;
    size_t bytes = 0;
    OK(hipMemGetAddressRange(&base, &bytes, buffer + 200));
    HOLDS(base == buffer && bytes == 256);
    STATUS(hipMemGetAddressRange(&base, &bytes, buffer + 256), hipErrorInvalidValue);

    /* Freeing: once, by the first address, and not what is not an allocation. */
    STATUS(hipFree(buffer + 16), hipErrorInvalidValue);
    STATUS(hipFree(host), hipErrorInvalidValue);
    OK(hipFree(buffer));
    STATUS(hipFree(buffer), hipErrorInvalidValue);
    STATUS(hipMemcpy(back, buffer, 1, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipMemcpy(back, buffer, 1, hipMemcpyDefault), hipErrorInvalidValue);
    STATUS(hipMemcpy(other, buffer, 1, hipMemcpyDefault), hipErrorInvalidValue);
    STATUS(hipMemcpy(other, other + 8, 1, hipMemcpyHostToDevice), hipErrorInvalidValue); /* the device's address for a host's */
    STATUS(hipMemset(buffer, 0, 1), hipErrorInvalidValue);
    OK(hipFree(other));
    void *big = NULL;
    OK(hipMemGetInfo(&free_before, &total));
    OK(hipMalloc(&big, 64 << 20));
    OK(hipMemGetInfo(&free_after, &total));
    HOLDS(free_after < free_before);
    OK(hipFree(big));
}

static void streams(void) {
    hipStream_t stream = NULL, second = NULL;
    hipEvent_t start = NULL, stop = NULL, untimed = NULL;
    unsigned flags = 9;
    float ms = -1;
    int *buffer = NULL, value = 5;
    OK(hipStreamCreate(&stream));
    OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    HOLDS(stream && second && stream != second);
    STATUS(hipStreamCreateWithFlags(&second, 77), hipErrorInvalidValue);
    STATUS(hipStreamCreate(NULL), hipErrorInvalidValue);
    OK(hipStreamGetFlags(second, &flags));
    HOLDS(flags == hipStreamNonBlocking);
    OK(hipMalloc((void **)&buffer, 4));
    OK(hipMemcpyAsync(buffer, &value, 4, hipMemcpyHostToDevice, stream));
    value = 0;
    OK(hipMemcpyAsync(&value, buffer, 4, hipMemcpyDeviceToHost, stream));
    OK(hipStreamSynchronize(stream));
    HOLDS(value == 5);
    OK(hipStreamQuery(stream));
    OK(hipStreamSynchronize(NULL));
    OK(hipDeviceSynchronize());

    OK(hipEventCreate(&start));
    OK(hipEventCreate(&stop));
    OK(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
    STATUS(hipEventCreateWithFlags(&untimed, 0x40), hipErrorInvalidValue);
    STATUS(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle); /* not recorded yet */
    OK(hipEventRecord(start, stream));
    STATUS(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle);
    OK(hipEventRecord(stop, stream));
    OK(hipEventSynchronize(stop));
    OK(hipEventQuery(stop));
    OK(hipEventElapsedTime(&ms, start, stop));
    HOLDS(ms >= 0 && ms < 10000);
    float reverse = 0;
    OK(hipEventElapsedTime(&reverse, stop, start));
    HOLDS(reverse <= 0 && reverse == -ms);
    STATUS(hipEventElapsedTime(NULL, start, stop), hipErrorInvalidValue);
    OK(hipEventRecord(untimed, stream));
    STATUS(hipEventElapsedTime(&ms, start, untimed), hipErrorInvalidHandle);
    OK(hipStreamWaitEvent(second, stop, 0));
    STATUS(hipStreamWaitEvent(second, stop, 3), hipErrorInvalidValue);

    /* Stale and invented handles. */
    OK(hipEventDestroy(start));
    STATUS(hipEventDestroy(start), hipErrorInvalidHandle);
    STATUS(hipEventRecord(start, stream), hipErrorInvalidHandle);
    STATUS(hipEventSynchronize((hipEvent_t)stream), hipErrorInvalidHandle);
    STATUS(hipEventQuery((hipEvent_t)0x1234), hipErrorInvalidHandle);
    OK(hipStreamDestroy(stream));
    STATUS(hipStreamDestroy(stream), hipErrorInvalidHandle);
    STATUS(hipStreamSynchronize(stream), hipErrorInvalidHandle);
    STATUS(hipStreamQuery(stream), hipErrorInvalidHandle);
    STATUS(hipMemcpyAsync(buffer, &value, 4, hipMemcpyHostToDevice, stream), hipErrorInvalidHandle);
    STATUS(hipMemsetAsync(buffer, 0, 4, stream), hipErrorInvalidHandle);
    STATUS(hipEventRecord(stop, stream), hipErrorInvalidHandle);
    STATUS(hipStreamDestroy(NULL), hipErrorInvalidHandle);
    STATUS(hipStreamDestroy((hipStream_t)buffer), hipErrorInvalidHandle);
    hipStream_t third = NULL;
    OK(hipStreamCreate(&third));
    HOLDS(third != stream); /* handles are not given twice */
}

static void modules(void) {
    hipModule_t module = NULL, again = NULL;
    hipFunction_t function = NULL, twice = NULL;
    unsigned char *image = read_file("hk.hsaco");
    char path[4096];
    OK(hipModuleLoadData(&module, image));
    OK(hipModuleLoadData(&again, image));
    HOLDS(module && again && module != again);
    OK(hipModuleGetFunction(&function, module, "collatz"));
    OK(hipModuleGetFunction(&twice, module, "collatz"));
    HOLDS(function && function == twice);
    STATUS(hipModuleGetFunction(&function, module, "collatz.kd"), hipErrorNotFound);
    STATUS(hipModuleGetFunction(&function, module, ""), hipErrorNotFound);
    STATUS(hipModuleGetFunction(&function, module, NULL), hipErrorInvalidValue);
    STATUS(hipModuleGetFunction(NULL, module, "collatz"), hipErrorInvalidValue);
    STATUS(hipModuleGetFunction(&function, (hipModule_t)0x99, "collatz"), hipErrorInvalidHandle);
    STATUS(hipModuleGetFunction(&function, NULL, "collatz"), hipErrorInvalidHandle);
    snprintf(path, sizeof path, "%s/hk.hsaco", fixtures);
    hipModule_t from_file = NULL;
    OK(hipModuleLoad(&from_file, path));
    OK(hipModuleUnload(from_file));
    STATUS(hipModuleLoad(&from_file, "/nowhere.hsaco"), hipErrorFileNotFound);
    OK(hipModuleLoadDataEx(&from_file, image, 0, NULL, NULL));
    OK(hipModuleUnload(from_file));

    /* What is no image, or an image for something else. */
    unsigned char zeros[4096] = {0};
    STATUS(hipModuleLoadData(&again, zeros), hipErrorInvalidImage);
    STATUS(hipModuleLoadData(&again, NULL), hipErrorInvalidValue);
    STATUS(hipModuleLoadData(NULL, image), hipErrorInvalidValue);
    unsigned char saved = image[18];
    image[18] = 0x3e; /* e_machine: x86-64 */
    STATUS(hipModuleLoadData(&again, image), hipErrorNoBinaryForGpu);
    image[18] = saved;
    saved = image[48];
    image[48] = 0x41; /* e_flags: gfx1100 */
    STATUS(hipModuleLoadData(&again, image), hipErrorNoBinaryForGpu);
    image[48] = saved;
    memset(zeros, 0xff, sizeof zeros);
    memcpy(zeros, image, 6); /* ELF by its first bytes, with every length at its largest */
    STATUS(hipModuleLoadData(&again, zeros), hipErrorInvalidImage);

    OK(hipModuleUnload(module));
    STATUS(hipModuleUnload(module), hipErrorInvalidHandle);
    STATUS(hipModuleUnload(NULL), hipErrorInvalidHandle);
    STATUS(hipModuleGetFunction(&function, module, "collatz"), hipErrorInvalidHandle);
    STATUS(hipModuleLaunchKernel(twice, 1, 1, 1, 32, 1, 1, 0, 0, NULL, NULL), hipErrorInvalidHandle);
}

static void launch(void) {
    hipModule_t module;
    hipFunction_t function = kernel("hk.hsaco", "collatz", &module);
    unsigned char *in = read_file("collatz__a/in0.bin"), *expected = read_file("collatz__a/out1.bin"), got[1536], fill[1536];
    memset(fill, 205, sizeof fill);
    struct collatz arguments = {uploaded(in, 768), uploaded(fill, 1536), 90};
    hipStream_t stream;
    OK(hipStreamCreate(&stream));

    size_t size = sizeof arguments;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, NULL, extra));
    OK(hipStreamSynchronize(stream));
    OK(hipMemcpy(got, arguments.out, 1536, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(got, expected, 1536));

    OK(hipMemcpy(arguments.out, fill, 1536, hipMemcpyHostToDevice));
    void *params[] = {&arguments.in, &arguments.out, &arguments.n};
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(hipDeviceSynchronize());
    OK(hipMemcpy(got, arguments.out, 1536, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(got, expected, 1536));

    /* The smallest blob that holds the arguments is enough. */
    OK(hipMemcpy(arguments.out, fill, 1536, hipMemcpyHostToDevice));
    size = 20;
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, NULL, extra));
    OK(hipMemcpy(got, arguments.out, 1536, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(got, expected, 1536));
    HOLDS(!strcmp(zynferEmulatorLastReport(), ""));
    OK(hipModuleUnload(module));
}

static void refusals(void) {
    hipModule_t module, small_module, lds_module;
    hipFunction_t function = kernel("hk.hsaco", "collatz", &module);
    static unsigned char zeros[8192]; /* room for the largest workgroup: its lanes past n still read */
    struct collatz arguments = {uploaded(zeros, 4096), uploaded(zeros, 8192), 0};
    size_t size = sizeof arguments;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
    void *params[] = {&arguments.in, &arguments.out, &arguments.n};
#define LAUNCH(gx, gy, gz, bx, by, bz, lds) hipModuleLaunchKernel(function, gx, gy, gz, bx, by, bz, lds, NULL, NULL, extra)
    OK(LAUNCH(1, 1, 1, 32, 1, 1, 0));
    /* Arguments. */
    STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, extra), hipErrorInvalidValue);
    STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), hipErrorInvalidValue);
    for (int at = 0; at < 5; at += 2) {
        void *kept = extra[at];
        extra[at] = (void *)(uintptr_t)(at + 7);
        STATUS(LAUNCH(1, 1, 1, 32, 1, 1, 0), hipErrorInvalidValue);
        extra[at] = kept;
    }
    size = 19;
    STATUS(LAUNCH(1, 1, 1, 32, 1, 1, 0), hipErrorInvalidValue);
    size = sizeof arguments;
    extra[1] = NULL;
    STATUS(LAUNCH(1, 1, 1, 32, 1, 1, 0), hipErrorInvalidValue);
    extra[1] = &arguments;
    extra[3] = NULL;
    STATUS(LAUNCH(1, 1, 1, 32, 1, 1, 0), hipErrorInvalidValue);
    extra[3] = &size;
    params[1] = NULL;
    STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), hipErrorInvalidValue);
    /* Grid. */
    STATUS(LAUNCH(0, 1, 1, 32, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(1, 0, 1, 32, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(1, 1, 0, 32, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(0x80000000u, 1, 1, 1, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(1, 65537, 1, 32, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(1, 1, 65537, 32, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(0x7fffffff, 1, 1, 3, 1, 1, 0), hipErrorInvalidConfiguration); /* 2^32 - 1 work-items are passed */
    /* Block. */
    STATUS(LAUNCH(1, 1, 1, 0, 1, 1, 0), hipErrorInvalidConfiguration);
    STATUS(LAUNCH(1, 1, 1, 32, 0, 1, 0), hipErrorInvalidConfiguration);
    STATUS(LAUNCH(1, 1, 1, 32, 1, 0, 0), hipErrorInvalidConfiguration);
    STATUS(LAUNCH(1, 1, 1, 1025, 1, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(1, 1, 1, 32, 33, 1, 0), hipErrorInvalidValue);
    STATUS(LAUNCH(1, 1, 1, 65536, 65536, 1, 0), hipErrorInvalidValue); /* the product wraps 32 bits */
    OK(LAUNCH(1, 1, 1, 1024, 1, 1, 0));
    /* LDS: what is asked, and with the kernel's own. */
    OK(LAUNCH(1, 1, 1, 32, 1, 1, 65536));
    STATUS(LAUNCH(1, 1, 1, 32, 1, 1, 65537), hipErrorInvalidValue);
    hipFunction_t lds = kernel("rk.hsaco", "k_ctl", &lds_module);
    void *four[] = {params[0], params[0], params[0], params[0], params[0], params[0], params[0], params[0]};
    STATUS(hipModuleLaunchKernel(lds, 1, 1, 1, 32, 1, 1, 1, NULL, four, NULL), hipErrorInvalidValue);
    /* A kernel compiled for 64 work-items. */
    hipFunction_t small = kernel("ll.hsaco", "ll_atomics_rtn", &small_module);
    STATUS(hipModuleLaunchKernel(small, 1, 1, 1, 65, 1, 1, 0, NULL, four, NULL), hipErrorLaunchFailure);
    /* Handles. */
    STATUS(hipModuleLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), hipErrorInvalidHandle);
    STATUS(hipModuleLaunchKernel((hipFunction_t)module, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra), hipErrorInvalidHandle);
    STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, (hipStream_t)0x1230, NULL, extra), hipErrorInvalidHandle);
    OK(hipDeviceSynchronize()); /* a refused launch leaves no failure behind */
    OK(LAUNCH(1, 1, 1, 32, 1, 1, 0));
}

/* A launch is asynchronous: a kernel that goes wrong is no error of its launch. It ends the device, and every call that touches it says so,
 * on every stream and again and again, until the device is reset. */
static void trap(void) {
    hipModule_t module, good_module;
    hipFunction_t function = kernel("bad.hsaco", "bad_oob_global_write", &module);
    unsigned char zeros[400] = {0};
    struct collatz arguments = {uploaded(zeros, 400), uploaded(zeros, 400), 100};
    void *params[] = {&arguments.in, &arguments.out, &arguments.n}, *more = NULL;
    hipStream_t stream, other;
    hipEvent_t event;
    int value = 0;
    OK(hipStreamCreate(&stream));
    OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    OK(hipEventCreate(&event));
    OK(hipEventRecord(event, other));
    HOLDS(!strcmp(zynferEmulatorLastReport(), ""));
    OK(hipModuleLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    HOLDS(hipGetLastError() == hipSuccess);
    HOLDS(strstr(zynferEmulatorLastReport(), "bad_oob_global_write"));
    HOLDS(strstr(zynferEmulatorLastReport(), "workgroup 1,0,0"));
    for (int again = 0; again < 2; again++) {
        STATUS(hipStreamSynchronize(stream), hipErrorLaunchFailure);
        HOLDS(hipPeekAtLastError() == hipErrorLaunchFailure);
        STATUS(hipStreamSynchronize(other), hipErrorLaunchFailure);
        STATUS(hipStreamQuery(stream), hipErrorLaunchFailure);
        STATUS(hipDeviceSynchronize(), hipErrorLaunchFailure);
        STATUS(hipEventRecord(event, stream), hipErrorLaunchFailure);
        STATUS(hipEventSynchronize(event), hipErrorLaunchFailure);
        STATUS(hipMalloc(&more, 16), hipErrorLaunchFailure);
        STATUS(hipFree(arguments.in), hipErrorLaunchFailure);
        STATUS(hipMemcpy(zeros, arguments.in, 4, hipMemcpyDeviceToHost), hipErrorLaunchFailure);
        STATUS(hipMemsetAsync(arguments.in, 0, 4, other), hipErrorLaunchFailure);
        STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, other, params, NULL), hipErrorLaunchFailure);
        HOLDS(hipGetLastError() == hipErrorLaunchFailure);
        HOLDS(hipGetLastError() == hipSuccess);
    }
    OK(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0)); /* touches nothing */
    OK(hipDeviceReset());
    HOLDS(!strcmp(zynferEmulatorLastReport(), ""));
    OK(hipDeviceSynchronize());
    /* Everything is gone with the reset. */
    STATUS(hipStreamSynchronize(stream), hipErrorInvalidHandle);
    STATUS(hipEventQuery(event), hipErrorInvalidHandle);
    STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL), hipErrorInvalidHandle);
    STATUS(hipMemcpy(zeros, arguments.in, 4, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipModuleUnload(module), hipErrorInvalidHandle);
    function = kernel("bad.hsaco", "ok_oob_global_write", &good_module);
    arguments.in = uploaded(zeros, 400);
    arguments.out = uploaded(zeros, 400);
    OK(hipModuleLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(hipDeviceSynchronize());
    HOLDS(!strcmp(zynferEmulatorLastReport(), ""));
}

/* A kernel that signals a barrier with LDS stores outstanding: unseen, or as bad as a trap where ZYNFER_EMULATOR_CHECK looks for it. */
static void defects(void) {
    const char *list = getenv("ZYNFER_EMULATOR_CHECK");
    hipModule_t module, good_module;
    hipFunction_t function = kernel("bad.hsaco", "bad_nowait", &module);
    unsigned char zeros[256] = {0};
    void *in = uploaded(zeros, sizeof zeros), *out = NULL;
    OK(hipMalloc(&out, sizeof zeros));
    void *params[] = {&in, &out};
    if (list && !strcmp(list, "rase")) {
        STATUS(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, NULL, params, NULL), hipErrorInvalidValue);
        HOLDS(strstr(zynferEmulatorLastReport(), "\"rase\" is no check"));
        return;
    }
    OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, NULL, params, NULL));
    if (!list) {
        OK(hipDeviceSynchronize());
        return;
    }
    HOLDS(strstr(zynferEmulatorLastReport(), "checks found 1 defect, first missing_wait_dscnt_before_barrier"));
    STATUS(hipDeviceSynchronize(), hipErrorLaunchFailure);
    OK(hipDeviceReset());
    function = kernel("bad.hsaco", "ok_nowait", &good_module);
    in = uploaded(zeros, sizeof zeros);
    OK(hipMalloc(&out, sizeof zeros));
    OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, NULL, params, NULL));
    OK(hipDeviceSynchronize());
    /* What nobody wrote is nothing to read, and is again after the reset. */
    OK(hipMalloc(&in, sizeof zeros));
    OK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, NULL, params, NULL));
    STATUS(hipDeviceSynchronize(), hipErrorLaunchFailure);
    HOLDS(strstr(zynferEmulatorLastReport(), "uninitialized_")); /* by now it went through registers and LDS */
}

static void layout(void) {
#define NUMBER(name) printf(#name " %d\n", (int)name)
    printf("gcnArchName %zu\n", offsetof(hipDeviceProp_t, gcnArchName));
    printf("sizeof %zu\n", sizeof(hipDeviceProp_t));
    NUMBER(hipDeviceAttributeIntegrated);
    NUMBER(hipDeviceAttributeMaxSharedMemoryPerBlock);
    NUMBER(hipDeviceAttributeMultiprocessorCount);
    NUMBER(hipDeviceAttributePciBusId);
    NUMBER(hipDeviceAttributePciDeviceId);
    NUMBER(hipDeviceAttributePciDomainID);
    NUMBER(hipDeviceAttributeWarpSize);
    checks = 9;
}

int main(int argc, char **argv) {
    struct {
        const char *name;
        void (*part)(void);
    } parts[] = {{"device", device},
                 {"memory", memory},
                 {"streams", streams},
                 {"modules", modules},
                 {"launch", launch},
                 {"refusals", refusals},
                 {"trap", trap},
                 {"defects", defects},
                 {"layout", layout},
                 {"host_memory", host_memory},
                 {"boxes", boxes},
                 {"callbacks", callbacks},
                 {"kernels", kernels},
                 {"registered", registered},
                 {"captured", captured},
                 {"by_hand", by_hand},
                 {"misuse", misuse}};
    if (argc != 3) return 2;
    fixtures = argv[2];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strcmp(parts[i].name, argv[1])) {
            parts[i].part();
            printf("%s: %d checks\n", argv[1], checks);
            return 0;
        }
    }
    return 2;
}
