/* The rest of the runtime by AMD's header: host memory, rows and boxes, callbacks and contexts, facts of kernels, compiled programs. */
#include "abi.h"

#include <pthread.h>

void host_memory(void) {
    unsigned char *pinned = NULL, *same = NULL, *managed = NULL, host[64], back[64];
    hipPointerAttribute_t about;
    unsigned flags = 7;
    size_t bytes = 0, free_before = 0, free_after = 0, total = 0;
    OK(hipMemGetInfo(&free_before, &total));
    OK(hipHostMalloc((void **)&pinned, 5000, hipHostMallocMapped));
    HOLDS(pinned && (uintptr_t)pinned % 4096 == 0);
    OK(hipMemGetInfo(&free_after, &total));
    HOLDS(free_after == free_before); /* it is not the device's */
    for (int i = 0; i < 5000; i++) HOLDS(pinned[i] == 0);
    memset(pinned, 0x5a, 5000); /* the program writes through the pointer itself */
    OK(hipHostGetDevicePointer((void **)&same, pinned, 0));
    HOLDS(same == pinned);
    OK(hipHostGetFlags(&flags, pinned + 100));
    HOLDS(flags == hipHostMallocMapped);
    STATUS(hipHostMalloc((void **)&same, 16, 0x100), hipErrorInvalidValue);
    STATUS(hipHostMalloc(NULL, 16, 0), hipErrorInvalidValue);
    STATUS(hipHostMalloc((void **)&same, 16, hipHostMallocCoherent | hipHostMallocNonCoherent), hipErrorInvalidValue);
    STATUS(hipHostMalloc((void **)&same, SIZE_MAX - 100, 0), hipErrorOutOfMemory);
    OK(hipHostMalloc((void **)&same, 0, 0));
    HOLDS(same == NULL);
    STATUS(hipHostGetFlags(&flags, host), hipErrorInvalidValue);
    STATUS(hipHostGetDevicePointer((void **)&same, host, 0), hipErrorInvalidValue);

    /* A kernel reads pinned and managed memory, and the program reads what it wrote, by the same pointers. */
    hipModule_t module;
    hipFunction_t function = kernel("hk.hsaco", "collatz", &module);
    unsigned char *in = read_file("collatz__a/in0.bin"), *expected = read_file("collatz__a/out1.bin");
    OK(hipMallocManaged((void **)&managed, 1536, hipMemAttachGlobal));
    memcpy(pinned, in, 768);
    memset(managed, 205, 1536);
    struct collatz arguments = {pinned, managed, 90};
    void *params[] = {&arguments.in, &arguments.out, &arguments.n};
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(hipDeviceSynchronize());
    HOLDS(!memcmp(managed, expected, 1536));
    STATUS(hipMallocManaged((void **)&same, 16, 77), hipErrorInvalidValue);
    STATUS(hipMallocManaged((void **)&same, 0, hipMemAttachGlobal), hipErrorInvalidValue);
    OK(hipMemPrefetchAsync(managed, 1536, 0, NULL));
    OK(hipMemPrefetchAsync(managed, 1536, hipCpuDeviceId, NULL));
    STATUS(hipMemPrefetchAsync(managed, 1537, 0, NULL), hipErrorInvalidValue);
    STATUS(hipMemPrefetchAsync(managed, 1536, 3, NULL), hipErrorInvalidDevice);
    OK(hipMemAdvise(managed, 1536, hipMemAdviseSetReadMostly, 0));

    /* Copies know pinned memory for what it is, and its end. */
    memset(host, 9, sizeof host);
    OK(hipMemcpy(pinned, host, 64, hipMemcpyDefault));
    OK(hipMemcpy(back, pinned, 64, hipMemcpyDefault));
    HOLDS(!memcmp(back, host, 64));
    OK(hipMemset(pinned, 3, 8));
    HOLDS(pinned[7] == 3 && pinned[8] == 9);
    STATUS(hipMemset(pinned, 0, 5001), hipErrorInvalidValue);

    /* What a pointer is: HIP 6's numbers. */
    unsigned char *device = NULL;
    OK(hipMalloc((void **)&device, 256));
    OK(hipPointerGetAttributes(&about, device + 10));
    HOLDS((int)about.memoryType == hip64MemoryTypeDevice && about.device == 0 && about.devicePointer == device + 10 && !about.hostPointer);
    OK(hipPointerGetAttributes(&about, pinned + 10));
    HOLDS((int)about.memoryType == hip64MemoryTypeHost && about.hostPointer == pinned + 10 && about.devicePointer == pinned + 10);
    HOLDS(about.allocationFlags == hipHostMallocMapped && !about.isManaged);
    OK(hipPointerGetAttributes(&about, managed));
    HOLDS((int)about.memoryType == hip64MemoryTypeManaged && about.isManaged);
    OK(hipPointerGetAttributes(&about, host));
    HOLDS((int)about.memoryType == hip64MemoryTypeUnregistered && !about.devicePointer);
    STATUS(hipPointerGetAttributes(NULL, device), hipErrorInvalidValue);
    STATUS(hipPointerGetAttributes(&about, NULL), hipErrorInvalidValue);
    void *start = NULL;
    int ordinal = -1;
    OK(hipPointerGetAttribute(&start, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 100));
    OK(hipPointerGetAttribute(&bytes, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, device + 100));
    OK(hipPointerGetAttribute(&ordinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device + 100));
    HOLDS(start == device && bytes == 256 && ordinal == 0);
    STATUS(hipPointerGetAttribute(&start, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, host), hipErrorInvalidValue);
    STATUS(hipPointerGetAttribute(&start, HIP_POINTER_ATTRIBUTE_P2P_TOKENS, device), hipErrorNotSupported);
    hipPointer_attribute which[] = {HIP_POINTER_ATTRIBUTE_RANGE_SIZE, HIP_POINTER_ATTRIBUTE_HOST_POINTER};
    void *wanted[] = {&bytes, &start};
    bytes = 0;
    OK(hipDrvPointerGetAttributes(2, which, wanted, device));
    HOLDS(bytes == 256 && start == NULL);
    OK(hipMemPtrGetInfo(device, &bytes));
    HOLDS(bytes == 256);
    STATUS(hipMemPtrGetInfo(device + 1, &bytes), hipErrorInvalidValue);

    /* Each kind is freed by its own call, once. */
    STATUS(hipFree(pinned), hipErrorInvalidValue);
    STATUS(hipHostFree(device), hipErrorInvalidValue);
    STATUS(hipHostFree(managed), hipErrorInvalidValue);
    STATUS(hipHostFree(pinned + 4096), hipErrorInvalidValue);
    OK(hipHostFree(pinned));
    STATUS(hipHostFree(pinned), hipErrorInvalidValue);
    OK(hipHostFree(NULL));
    OK(hipFree(managed));
    STATUS(hipFree(managed), hipErrorInvalidValue);
    OK(hipFree(device));

    /* Registered memory stays the program's. */
    OK(hipHostRegister(host, 64, hipHostRegisterDefault));
    STATUS(hipHostRegister(host + 10, 4, hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
    STATUS(hipHostRegister(NULL, 4, 0), hipErrorInvalidValue);
    OK(hipPointerGetAttributes(&about, host + 3));
    HOLDS((int)about.memoryType == hip64MemoryTypeHost && about.hostPointer == host + 3);
    OK(hipHostUnregister(host));
    STATUS(hipHostUnregister(host), hipErrorHostMemoryNotRegistered);

    /* Stream-ordered memory, and what a pool counts. */
    hipMemPool_t pool = NULL, current = NULL, mine = NULL;
    uint64_t used = 1, threshold = 1 << 20;
    OK(hipDeviceGetDefaultMemPool(&pool, 0));
    OK(hipDeviceGetMemPool(&current, 0));
    HOLDS(pool && pool == current);
    OK(hipMallocAsync((void **)&device, 1000, NULL));
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    HOLDS(used == 1000);
    OK(hipMemcpyAsync(device, host, 64, hipMemcpyHostToDevice, NULL));
    OK(hipFreeAsync(device, NULL));
    STATUS(hipFreeAsync(device, NULL), hipErrorInvalidValue);
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
    HOLDS(used == 0);
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemHigh, &used));
    HOLDS(used == 1000);
    OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
    OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReleaseThreshold, &used));
    HOLDS(used == 1 << 20);
    hipMemPoolProps props = {.allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, 0}};
    OK(hipMemPoolCreate(&mine, &props));
    OK(hipMallocFromPoolAsync((void **)&device, 64, mine, NULL));
    OK(hipFreeAsync(device, NULL));
    OK(hipMemPoolTrimTo(mine, 0));
    OK(hipDeviceSetMemPool(0, mine));
    OK(hipMemPoolDestroy(mine));
    STATUS(hipMemPoolTrimTo(mine, 0), hipErrorInvalidValue);
    OK(hipDeviceGetMemPool(&current, 0));
    HOLDS(current == pool);
    STATUS(hipMemPoolDestroy(pool), hipErrorInvalidValue);
    STATUS(hipMallocFromPoolAsync((void **)&device, 64, mine, NULL), hipErrorInvalidValue);
}

void boxes(void) {
    enum { WIDTH = 10, HEIGHT = 4, DEPTH = 3, HOST_PITCH = 16 };
    unsigned char host[HOST_PITCH * HEIGHT * DEPTH], back[HOST_PITCH * HEIGHT * DEPTH], *device = NULL;
    size_t pitch = 0;
    for (size_t i = 0; i < sizeof host; i++) host[i] = (unsigned char)(i + 1);
    OK(hipMallocPitch((void **)&device, &pitch, WIDTH, HEIGHT));
    HOLDS(pitch >= WIDTH && pitch % 256 == 0);
    OK(hipMemset(device, 0xee, pitch * HEIGHT));
    OK(hipMemcpy2D(device, pitch, host, HOST_PITCH, WIDTH, HEIGHT, hipMemcpyHostToDevice));
    memset(back, 0, sizeof back);
    OK(hipMemcpy2D(back, HOST_PITCH, device, pitch, WIDTH, HEIGHT, hipMemcpyDeviceToHost));
    for (int row = 0; row < HEIGHT; row++) {
        HOLDS(!memcmp(back + row * HOST_PITCH, host + row * HOST_PITCH, WIDTH));
        for (int at = WIDTH; at < HOST_PITCH; at++) HOLDS(back[row * HOST_PITCH + at] == 0); /* what lies between rows is not touched */
    }
    unsigned char gap = 0;
    OK(hipMemcpy(&gap, device + pitch - 1, 1, hipMemcpyDeviceToHost));
    HOLDS(gap == 0xee);
    STATUS(hipMemcpy2D(device, WIDTH - 1, host, HOST_PITCH, WIDTH, HEIGHT, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);
    STATUS(hipMemcpy2D(device, pitch, host, HOST_PITCH, WIDTH, HEIGHT + 1, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpy2D(device, SIZE_MAX / 2, host, HOST_PITCH, WIDTH, HEIGHT, hipMemcpyHostToDevice), hipErrorInvalidValue);
    OK(hipMemcpy2D(device, pitch, host, HOST_PITCH, 0, HEIGHT, hipMemcpyHostToDevice));
    OK(hipMemcpy2DAsync(device, pitch, host + HOST_PITCH, HOST_PITCH, WIDTH, 2, hipMemcpyDefault, NULL));
    OK(hipMemcpy(back, device + pitch, WIDTH, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(back, host + 2 * HOST_PITCH, WIDTH));

    /* A part of rows, described by a struct. */
    hip_Memcpy2D part = {.srcHost = host, .srcPitch = HOST_PITCH, .srcXInBytes = 2, .srcY = 1, .dstDevice = device, .dstPitch = pitch,
                         .dstXInBytes = 3, .dstY = 2, .WidthInBytes = 4, .Height = 2, .srcMemoryType = 0, .dstMemoryType = 1};
    OK(hipMemset2D(device, pitch, 0, WIDTH, HEIGHT));
    OK(hipMemcpyParam2D(&part));
    OK(hipMemcpy2D(back, HOST_PITCH, device, pitch, WIDTH, HEIGHT, hipMemcpyDeviceToHost));
    HOLDS(back[2 * HOST_PITCH + 2] == 0 && back[2 * HOST_PITCH + 7] == 0 && back[HOST_PITCH + 3] == 0);
    HOLDS(!memcmp(back + 2 * HOST_PITCH + 3, host + HOST_PITCH + 2, 4) && !memcmp(back + 3 * HOST_PITCH + 3, host + 2 * HOST_PITCH + 2, 4));

    OK(hipMemset2D(device, pitch, 7, 3, 2));
    OK(hipMemset2DAsync(device + pitch, pitch, 9, 2, 1, NULL));
    OK(hipMemcpy2D(back, HOST_PITCH, device, pitch, WIDTH, HEIGHT, hipMemcpyDeviceToHost));
    HOLDS(back[0] == 7 && back[2] == 7 && back[3] == 0 && back[HOST_PITCH] == 9 && back[HOST_PITCH + 2] == 7 && back[2 * HOST_PITCH] == 0);
    STATUS(hipMemset2D(device, 2, 7, 3, 2), hipErrorInvalidValue);
    STATUS(hipMemset2D(device, pitch, 7, pitch, HEIGHT + 1), hipErrorInvalidValue);
    OK(hipFree(device));

    /* Boxes. */
    hipPitchedPtr box;
    hipExtent extent = {WIDTH, HEIGHT, DEPTH};
    OK(hipMalloc3D(&box, extent));
    HOLDS(box.ptr && box.pitch % 256 == 0 && box.xsize == WIDTH && box.ysize == HEIGHT);
    OK(hipMemset3D(box, 0x11, extent));
    hipMemcpy3DParms copy = {.srcPtr = {host, HOST_PITCH, WIDTH, HEIGHT}, .dstPtr = box, .extent = {4, 2, 2}, .srcPos = {1, 1, 1},
                             .dstPos = {2, 2, 1}, .kind = hipMemcpyHostToDevice};
    OK(hipMemcpy3D(&copy));
    hipMemcpy3DParms whole = {.srcPtr = box, .dstPtr = {back, HOST_PITCH, WIDTH, HEIGHT}, .extent = extent, .kind = hipMemcpyDeviceToHost};
    OK(hipMemcpy3DAsync(&whole, NULL));
    for (int z = 0; z < DEPTH; z++) {
        for (int y = 0; y < HEIGHT; y++) {
            for (int x = 0; x < WIDTH; x++) {
                int inside = x >= 2 && x < 6 && y >= 2 && y < 4 && z >= 1 && z < 3;
                int from = ((z - 1 + 1) * HEIGHT + (y - 2 + 1)) * HOST_PITCH + (x - 2 + 1);
                HOLDS(back[(z * HEIGHT + y) * HOST_PITCH + x] == (inside ? host[from] : 0x11));
            }
        }
    }
    STATUS(hipMemcpy3D(NULL), hipErrorInvalidValue);
    copy.dstPos.z = 2;
    STATUS(hipMemcpy3D(&copy), hipErrorInvalidValue); /* leaves the box */
    OK(hipFree(box.ptr));
}

static int called;
static hipStream_t called_on;
static hipError_t called_with;

static void host_function(void *data) {
    int value = 0;
    OK(hipGetDevice(&value)); /* nothing is held while it runs */
    called += *(int *)data;
}

static void callback(hipStream_t stream, hipError_t status, void *data) {
    called_on = stream;
    called_with = status;
    called += *(int *)data;
}

static void *other_thread(void *data) {
    hipStream_t *streams = data;
    hipEvent_t event;
    OK(hipEventCreate(&event));
    OK(hipEventRecord(event, hipStreamPerThread));
    OK(hipStreamSynchronize(hipStreamPerThread));
    OK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeThreadLocal));
    hipStreamCaptureStatus status;
    OK(hipStreamIsCapturing(hipStreamPerThread, &status));
    HOLDS(status == hipStreamCaptureStatusActive);
    hipGraph_t graph;
    OK(hipStreamEndCapture(hipStreamPerThread, &graph));
    streams[0] = NULL;
    return NULL;
}

void callbacks(void) {
    hipStream_t stream = NULL;
    int least = 9, greatest = 9, priority = 9, seven = 7, device = -1;
    OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
    HOLDS(greatest < least);
    OK(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, -100));
    OK(hipStreamGetPriority(stream, &priority));
    HOLDS(priority == greatest);
    OK(hipStreamGetDevice(stream, &device));
    HOLDS(device == 0 && hipGetStreamDeviceId(stream) == 0 && hipGetStreamDeviceId((hipStream_t)0x77) == -1);
    OK(hipLaunchHostFunc(stream, host_function, &seven));
    OK(hipStreamSynchronize(stream));
    HOLDS(called == 7);
    STATUS(hipLaunchHostFunc(stream, NULL, &seven), hipErrorInvalidValue);
    STATUS(hipLaunchHostFunc((hipStream_t)0x1230, host_function, &seven), hipErrorInvalidHandle);
    OK(hipStreamAddCallback(stream, callback, &seven, 0));
    OK(hipStreamSynchronize(stream));
    HOLDS(called == 14 && called_on == stream && called_with == hipSuccess);
    STATUS(hipStreamAddCallback(stream, callback, &seven, 1), hipErrorInvalidValue);
    STATUS(hipStreamAddCallback(stream, NULL, &seven, 0), hipErrorInvalidValue);
    HOLDS(called == 14);

    /* Default streams are always there, and each thread has one of its own. */
    OK(hipStreamQuery(hipStreamPerThread));
    STATUS(hipStreamDestroy(hipStreamPerThread), hipErrorInvalidHandle);
    pthread_t thread;
    HOLDS(!pthread_create(&thread, NULL, other_thread, &stream));
    HOLDS(!pthread_join(thread, NULL) && !stream);
    hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
    OK(hipStreamIsCapturing(hipStreamPerThread, &status));
    HOLDS(status == hipStreamCaptureStatusNone); /* the other thread's captures, not ours */

    /* Calls by name, and for programs whose default stream is the thread's own. */
    hipError_t (*get_device)(int *) = NULL;
    int symbol_status = 9;
    OK(hipGetProcAddress("hipGetDevice", (void **)&get_device, 604, 0, &symbol_status));
    HOLDS(get_device && symbol_status == 0);
    device = -1;
    OK(get_device(&device));
    HOLDS(device == 0);
    hipError_t (*properties)(void *, int) = NULL;
    unsigned char versioned[1472], unversioned[1472] = {0};
    OK(hipGetProcAddress("hipGetDeviceProperties", (void **)&properties, 604, 0, NULL));
    OK(properties(versioned, 0));
    HOLDS(!strcmp((char *)versioned + offsetof(hipDeviceProp_tR0600, gcnArchName), "gfx1201"));
    OK(hipGetProcAddress("hipGetDeviceProperties", (void **)&properties, 502, 0, NULL));
    OK(properties(unversioned, 0));
    HOLDS(!strcmp((char *)unversioned + offsetof(hipDeviceProp_t, gcnArchName), "gfx1201"));
    STATUS(hipGetProcAddress("hipMakeCoffee", (void **)&properties, 604, 0, &symbol_status), hipErrorInvalidValue);
    HOLDS(symbol_status == 1 && !properties);
    int *number = NULL, sent = 41, received = 0;
    OK(hipMalloc((void **)&number, 4));
    OK(hipMemcpy_spt(number, &sent, 4, hipMemcpyHostToDevice));
    OK(hipStreamBeginCapture_spt(NULL, hipStreamCaptureModeGlobal)); /* the null stream itself could not */
    OK(hipMemsetAsync_spt(number, 0, 4, NULL));
    hipGraph_t graph = NULL;
    OK(hipStreamEndCapture_spt(NULL, &graph));
    OK(hipMemcpyAsync_spt(&received, number, 4, hipMemcpyDeviceToHost, NULL));
    OK(hipStreamSynchronize_spt(NULL));
    HOLDS(graph && received == 41);

    /* Contexts are names for the one device. */
    hipCtx_t primary = NULL, context = NULL, now = NULL;
    unsigned flags = 9;
    int active = 9;
    OK(hipDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(!active);
    OK(hipDevicePrimaryCtxRetain(&primary, 0));
    OK(hipDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(primary && active);
    OK(hipCtxCreate(&context, 0, 0));
    OK(hipCtxGetCurrent(&now));
    HOLDS(now == context && context != primary);
    OK(hipCtxGetDevice(&device));
    OK(hipCtxPushCurrent(primary));
    OK(hipCtxPopCurrent(&now));
    HOLDS(now == primary);
    OK(hipCtxSynchronize());
    OK(hipCtxDestroy(context));
    STATUS(hipCtxSetCurrent(context), hipErrorInvalidContext);
    STATUS(hipCtxCreate(&context, 0, 1), hipErrorInvalidDevice);
    OK(hipCtxGetCurrent(&now));
    HOLDS(now == primary);
    OK(hipDevicePrimaryCtxRelease(0));

    size_t limit = 0;
    OK(hipDeviceSetLimit(hipLimitMallocHeapSize, 1 << 20));
    OK(hipDeviceGetLimit(&limit, hipLimitMallocHeapSize));
    HOLDS(limit == 1 << 20);
    STATUS(hipDeviceGetLimit(&limit, (enum hipLimit_t)9), hipErrorUnsupportedLimit);
    OK(hipSetDeviceFlags(hipDeviceScheduleYield));
    OK(hipGetDeviceFlags(&flags));
    HOLDS(flags == hipDeviceScheduleYield);
    STATUS(hipSetDeviceFlags(hipDeviceScheduleYield | hipDeviceScheduleSpin), hipErrorInvalidValue);
    char bus[32];
    OK(hipDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(hipDeviceGetByPCIBusId(&device, bus));
    HOLDS(device == 0);
    STATUS(hipDeviceGetByPCIBusId(&device, "0000:99:00.0"), hipErrorInvalidValue);
    int can = 9;
    OK(hipDeviceCanAccessPeer(&can, 0, 0));
    HOLDS(can == 0);
    hipDeviceProp_t asked;
    memset(&asked, 0, sizeof asked);
    OK(hipChooseDevice(&device, &asked));
    HOLDS(device == 0);
}

static void launches(hipFunction_t function, hipModule_t module) {
    unsigned char *in = read_file("collatz__a/in0.bin"), *expected = read_file("collatz__a/out1.bin"), got[1536], fill[1536];
    memset(fill, 205, sizeof fill);
    struct collatz arguments = {uploaded(in, 768), uploaded(fill, 1536), 90};
    void *params[] = {&arguments.in, &arguments.out, &arguments.n};
    hipEvent_t start, stop;
    float ms = -1;
    OK(hipEventCreate(&start));
    OK(hipEventCreate(&stop));
    /* The grid of the extension counts work-items. */
    OK(hipExtModuleLaunchKernel(function, 192, 1, 1, 64, 1, 1, 0, NULL, params, NULL, start, stop, 0));
    OK(hipEventElapsedTime(&ms, start, stop));
    HOLDS(ms >= 0);
    OK(hipMemcpy(got, arguments.out, 1536, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(got, expected, 1536));
    STATUS(hipExtModuleLaunchKernel(function, 192, 1, 1, 0, 1, 1, 0, NULL, params, NULL, NULL, NULL, 0), hipErrorInvalidConfiguration);
    STATUS(hipExtModuleLaunchKernel(function, 190, 1, 1, 64, 1, 1, 0, NULL, params, NULL, NULL, NULL, 0), hipErrorNotSupported);
    OK(hipMemcpy(arguments.out, fill, 1536, hipMemcpyHostToDevice));
    OK(hipModuleLaunchCooperativeKernel(function, 3, 1, 1, 64, 1, 1, 0, NULL, params));
    OK(hipMemcpy(got, arguments.out, 1536, hipMemcpyDeviceToHost));
    HOLDS(!memcmp(got, expected, 1536));
    /* 32 workgroup processors of 2048 work-items hold 64 workgroups of 1024. */
    STATUS(hipModuleLaunchCooperativeKernel(function, 65, 1, 1, 1024, 1, 1, 0, NULL, params), hipErrorCooperativeLaunchTooLarge);
    OK(hipModuleUnload(module));
}

void kernels(void) {
    hipModule_t module, ll;
    hipFunction_t function = kernel("hk.hsaco", "collatz", &module), small = kernel("ll.hsaco", "ll_atomics_rtn", &ll);
    int value = -1, groups = -1, block = -1, grid = -1;
    hipFuncAttributes facts;
    HOLDS(!strcmp(hipKernelNameRef(function), "collatz"));
    OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    HOLDS(value == 1024);
    OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, small));
    HOLDS(value == 64);
    OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
    HOLDS(value == 0);
    OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    HOLDS(value == 65536);
    OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_NUM_REGS, function));
    HOLDS(value > 0 && value < 64);
    OK(hipFuncGetAttributes(&facts, function));
    HOLDS(facts.numRegs == value && facts.maxThreadsPerBlock == 1024 && facts.sharedSizeBytes == 0);
    STATUS(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX, function), hipErrorInvalidValue);
    STATUS(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_NUM_REGS, NULL), hipErrorInvalidHandle);
    STATUS(hipFuncGetAttributes(&facts, (void *)&value), hipErrorInvalidDeviceFunction);
    OK(hipFuncSetAttribute(function, hipFuncAttributeMaxDynamicSharedMemorySize, 65536));
    STATUS(hipFuncSetAttribute(function, hipFuncAttributeMaxDynamicSharedMemorySize, 65537), hipErrorInvalidValue);
    OK(hipFuncSetCacheConfig(function, hipFuncCachePreferL1));
    /* Few registers: bound by 64 waves of 32, then by 128 KiB of LDS. */
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&groups, function, 64, 0));
    HOLDS(groups == 32);
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&groups, function, 65, 0));
    HOLDS(groups == 21); /* three waves each */
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&groups, function, 64, 40000));
    HOLDS(groups == 3);
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&groups, function, 2000, 0));
    HOLDS(groups == 0);
    STATUS(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&groups, function, 0, 0), hipErrorInvalidValue);
    OK(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, function, 0, 0));
    HOLDS(block == 1024 && grid == 64);
    OK(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, function, 0, 100));
    HOLDS(block == 64 && grid == 1024); /* of 96 and 64 only the second fills all 64 waves */
    STATUS(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, NULL, 0, 0), hipErrorInvalidHandle);

    /* Exported variables. */
    hipModule_t table_module;
    hipFunction_t read_table = kernel("../hip/table.hsaco", "read_table", &table_module);
    uint32_t *table = NULL, *out = NULL, got[8], changed[2] = {5, 6};
    size_t bytes = 0;
    OK(hipModuleGetGlobal((void **)&table, &bytes, table_module, "table"));
    HOLDS(table && bytes == 16);
    OK(hipModuleGetGlobal(NULL, &bytes, table_module, "table"));
    STATUS(hipModuleGetGlobal(NULL, NULL, table_module, "table"), hipErrorInvalidValue);
    STATUS(hipModuleGetGlobal((void **)&table, &bytes, table_module, "chair"), hipErrorNotFound);
    STATUS(hipModuleGetGlobal((void **)&table, &bytes, (hipModule_t)0x7, "table"), hipErrorInvalidHandle);
    OK(hipMemcpy(got, table, 16, hipMemcpyDeviceToHost));
    HOLDS(got[0] == 11 && got[3] == 44);
    OK(hipMemcpy(table + 1, changed, 8, hipMemcpyHostToDevice));
    STATUS(hipFree(table), hipErrorInvalidValue);
    OK(hipMalloc((void **)&out, 32));
    void *params[] = {&out};
    OK(hipModuleLaunchKernel(read_table, 1, 1, 1, 8, 1, 1, 0, NULL, params, NULL));
    OK(hipMemcpy(got, out, 32, hipMemcpyDeviceToHost));
    HOLDS(got[0] == 11 && got[1] == 5 && got[2] == 6 && got[3] == 44 && got[4] == 11 && got[7] == 44);
    OK(hipModuleUnload(table_module));
    launches(function, module);
}

/* What a compiler makes of a file with one kernel and one variable: a bundle with code for two machines, a wrapper around it. */
static void *bundle(const char *object, const char *target) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", fixtures, object);
    FILE *file = fopen(path, "rb");
    HOLDS(file != NULL);
    fseek(file, 0, SEEK_END);
    uint64_t bytes = ftell(file);
    rewind(file);
    const char *names[] = {"host-x86_64-unknown-linux--", target};
    unsigned char *made = calloc(1, 4096 + bytes), *at = made;
    memcpy(at, "__CLANG_OFFLOAD_BUNDLE__", 24);
    uint64_t count = 2;
    memcpy(at += 24, &count, 8);
    at += 8;
    for (int i = 0; i < 2; i++) {
        uint64_t entry[3] = {4096, i ? bytes : 0, strlen(names[i])};
        memcpy(at, entry, sizeof entry);
        memcpy(at + sizeof entry, names[i], entry[2]);
        at += sizeof entry + entry[2];
    }
    HOLDS(fread(made + 4096, 1, bytes, file) == bytes);
    fclose(file);
    return made;
}

static void stub_function(void) {}
static void unknown_function(void) {}
static uint32_t stub_table[4];

void registered(void) {
    hipFatBinaryWrapper wrapper = {0x48495046, 1, bundle("../hip/table.hsaco", "hipv4-amdgcn-amd-amdhsa--gfx1201"), NULL};
    hipFatBinaryHandle_t handle = __hipRegisterFatBinary(&wrapper);
    HOLDS(handle != NULL);
    __hipRegisterFunction(handle, (void *)stub_function, "read_table", "read_table", -1, NULL, NULL, NULL, NULL, NULL);
    __hipRegisterVar(handle, stub_table, "table", "table", 0, 16, 0, 0);
    uint32_t *out = NULL, got[8] = {0}, changed[2] = {71, 72};
    OK(hipMalloc((void **)&out, 32));
    void *params[] = {&out}, *address = NULL;
    dim3 grid = {1, 1, 1}, block = {8, 1, 1}, popped_grid, popped_block;
    size_t lds = 9, bytes = 0;
    hipStream_t stream;
    OK(__hipPushCallConfiguration((dim3){3, 4, 5}, (dim3){6, 7, 8}, 99, hipStreamPerThread));
    OK(__hipPopCallConfiguration(&popped_grid, &popped_block, &lds, &stream));
    HOLDS(popped_grid.x == 3 && popped_grid.z == 5 && popped_block.y == 7 && lds == 99 && stream == hipStreamPerThread);
    STATUS(__hipPopCallConfiguration(&popped_grid, &popped_block, &lds, &stream), hipErrorMissingConfiguration);
    OK(hipLaunchKernel((void *)stub_function, grid, block, params, 0, NULL));
    OK(hipMemcpy(got, out, 32, hipMemcpyDeviceToHost));
    HOLDS(got[0] == 11 && got[5] == 22);
    STATUS(hipLaunchKernel((void *)unknown_function, grid, block, params, 0, NULL), hipErrorInvalidDeviceFunction);
    OK(hipGetSymbolSize(&bytes, stub_table));
    OK(hipGetSymbolAddress(&address, stub_table));
    HOLDS(bytes == 16 && address);
    STATUS(hipGetSymbolSize(&bytes, got), hipErrorInvalidSymbol);
    OK(hipMemcpyToSymbol(stub_table, changed, 8, 4, hipMemcpyHostToDevice));
    OK(hipLaunchCooperativeKernel((void *)stub_function, grid, block, params, 0, NULL));
    OK(hipMemcpy(got, out, 32, hipMemcpyDeviceToHost));
    HOLDS(got[0] == 11 && got[1] == 71 && got[2] == 72 && got[3] == 44);
    OK(hipMemcpyFromSymbol(got, stub_table, 16, 0, hipMemcpyDeviceToHost));
    HOLDS(got[1] == 71);
    STATUS(hipMemcpyToSymbol(stub_table, changed, 8, 12, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipMemcpyToSymbol(stub_table, changed, 8, 0, hipMemcpyDeviceToHost), hipErrorInvalidMemcpyDirection);
    int groups = 0;
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, (void *)stub_function, 64, 0));
    HOLDS(groups == 32);
    /* After a reset it is loaded again, with its first contents. */
    OK(hipDeviceReset());
    OK(hipMalloc((void **)&out, 32));
    OK(hipLaunchKernel((void *)stub_function, grid, block, params, 0, NULL));
    OK(hipMemcpy(got, out, 32, hipMemcpyDeviceToHost));
    HOLDS(got[1] == 22);
    __hipUnregisterFatBinary(handle);
    STATUS(hipLaunchKernel((void *)stub_function, grid, block, params, 0, NULL), hipErrorInvalidDeviceFunction);

    /* The same bundle is an image, one for another card is not. */
    hipModule_t module;
    OK(hipModuleLoadData(&module, wrapper.binary));
    OK(hipModuleUnload(module));
    STATUS(hipModuleLoadData(&module, bundle("../hip/table.hsaco", "hipv4-amdgcn-amd-amdhsa--gfx1100")), hipErrorNoBinaryForGpu);
    wrapper.magic = 1;
    HOLDS(__hipRegisterFatBinary(&wrapper) == NULL && __hipRegisterFatBinary(NULL) == NULL);
}
