/* What HIP 6.4 has and the header of 5.2 has not, as far as the emulator offers it: prototypes, structs and numbers. Facts of the
 * interface, transcribed from the public bindings of HIP 6.4.43484 (crate cubecl-hip-sys, src/bindings/bindings_43484.rs); the functions
 * that compiled programs call are of ROCm's clr (hipamd/src/hip_platform.cpp). It is not AMD's header and is not complete. */
#pragma once
#include <hip/hip_runtime_api.h>

/* hipDeviceProp_tR0600, fields in order. */
typedef struct hipDeviceProp_tR0600 {
    char name[256];
    hipUUID uuid;
    char luid[8];
    unsigned int luidDeviceNodeMask;
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    size_t memPitch;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int clockRate;
    size_t totalConstMem;
    int major;
    int minor;
    size_t textureAlignment;
    size_t texturePitchAlignment;
    int deviceOverlap;
    int multiProcessorCount;
    int kernelExecTimeoutEnabled;
    int integrated;
    int canMapHostMemory;
    int computeMode;
    int maxTexture1D;
    int maxTexture1DMipmap;
    int maxTexture1DLinear;
    int maxTexture2D[2];
    int maxTexture2DMipmap[2];
    int maxTexture2DLinear[3];
    int maxTexture2DGather[2];
    int maxTexture3D[3];
    int maxTexture3DAlt[3];
    int maxTextureCubemap;
    int maxTexture1DLayered[2];
    int maxTexture2DLayered[3];
    int maxTextureCubemapLayered[2];
    int maxSurface1D;
    int maxSurface2D[2];
    int maxSurface3D[3];
    int maxSurface1DLayered[2];
    int maxSurface2DLayered[3];
    int maxSurfaceCubemap;
    int maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels;
    int ECCEnabled;
    int pciBusID;
    int pciDeviceID;
    int pciDomainID;
    int tccDriver;
    int asyncEngineCount;
    int unifiedAddressing;
    int memoryClockRate;
    int memoryBusWidth;
    int l2CacheSize;
    int persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported;
    int globalL1CacheSupported;
    int localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor;
    int managedMemory;
    int isMultiGpuBoard;
    int multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    int singleToDoublePrecisionPerfRatio;
    int pageableMemoryAccess;
    int concurrentManagedAccess;
    int computePreemptionSupported;
    int canUseHostPointerForRegisteredMem;
    int cooperativeLaunch;
    int cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables;
    int directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported;
    int sparseHipArraySupported;
    int hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported;
    int memoryPoolsSupported;
    int gpuDirectRDMASupported;
    unsigned int gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned int memoryPoolSupportedHandleTypes;
    int deferredMappingHipArraySupported;
    int ipcEventSupported;
    int clusterLaunch;
    int unifiedFunctionPointers;
    int reserved[63];
    int hipReserved[32];
    char gcnArchName[256];
    size_t maxSharedMemoryPerMultiProcessor;
    int clockInstructionRate;
    hipDeviceArch_t arch;
    unsigned int *hdpMemFlushCntl;
    unsigned int *hdpRegFlushCntl;
    int cooperativeMultiDeviceUnmatchedFunc;
    int cooperativeMultiDeviceUnmatchedGridDim;
    int cooperativeMultiDeviceUnmatchedBlockDim;
    int cooperativeMultiDeviceUnmatchedSharedMem;
    int isLargeBar;
    int asicRevision;
} hipDeviceProp_tR0600;

typedef struct hipGraphInstantiateParams {
    hipGraphNode_t errNode_out;
    unsigned long long flags;
    int result_out;
    hipStream_t uploadStream;
} hipGraphInstantiateParams;

/* Numbers that differ from 5.2's or are new. */
enum {
    hip64MemoryTypeUnregistered = 0,
    hip64MemoryTypeHost = 1,
    hip64MemoryTypeDevice = 2,
    hip64MemoryTypeManaged = 3,
    hip64GraphNodeTypeKernel = 0,
    hip64GraphNodeTypeMemcpy = 1,
    hip64GraphNodeTypeMemset = 2,
    hip64GraphNodeTypeHost = 3,
    hip64GraphNodeTypeGraph = 4,
    hip64GraphNodeTypeEmpty = 5,
    hip64GraphNodeTypeWaitEvent = 6,
    hip64GraphNodeTypeEventRecord = 7,
    hip64GraphInstantiateFlagUseNodePriority = 8,
    hip64GraphInstantiateInvalidStructure = 2,
    hip64LimitStackSize = 0,
    hip64EventRecordExternal = 1,
    hip64ErrorInvalidChannelDescriptor = 911,
    hip64ErrorInvalidTexture = 912,
    hip64DeviceAttributeVirtualMemoryManagementSupported = 89,
    hip64DeviceAttributeHostRegisterSupported = 90,
    hip64DeviceAttributeMemoryPoolSupportedHandleTypes = 91,
    hip64DeviceAttributeWallClockRate = 10017,
};

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *prop, int deviceId);
hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_t *prop, int deviceId);
hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *prop);
hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value);
hipError_t hipDrvGetErrorName(hipError_t hipError, const char **errorString);
hipError_t hipDrvGetErrorString(hipError_t hipError, const char **errorString);
hipError_t hipExtGetLastError(void);
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned int flags);
hipError_t hipGetFuncBySymbol(hipFunction_t *functionPtr, const void *symbolPtr);
hipError_t hipGraphExecGetFlags(hipGraphExec_t graphExec, unsigned long long *flags);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *pGraphExec, hipGraph_t graph, hipGraphInstantiateParams *instantiateParams);
hipError_t hipGraphNodeGetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int *isEnabled);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int isEnabled);
hipError_t hipGraphUpload(hipGraphExec_t graphExec, hipStream_t stream);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                            unsigned int sharedMemBytes, hipStream_t stream, void **kernelParams);
hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                        const void *dependencyData, size_t numDependencies, hipStreamCaptureMode mode);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device);

/* symbolStatus: 0 found, 1 not found. Flags: 1 the null stream is the default, 2 the thread's own is. */
hipError_t hipGetProcAddress(const char *symbol, void **pfn, int hipVersion, uint64_t flags, int *symbolStatus);

/* Programs whose default stream is each thread's own; the rest of these are in amd_detail/amd_hip_runtime_pt_api.h. */
hipError_t hipMemsetAsync_spt(void *dst, int value, size_t sizeBytes, hipStream_t stream);
hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void *userData, unsigned int flags);
hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t fn, void *userData);
hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream);
hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *pGraph);
hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus);
hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus *pCaptureStatus, unsigned long long *pId);
hipError_t hipGraphLaunch_spt(hipGraphExec_t graphExec, hipStream_t stream);

/* What compiled host code calls. */
typedef struct hipFatBinaryWrapper {
    unsigned int magic; /* HIPF */
    unsigned int version;
    const void *binary;
    void *unused;
} hipFatBinaryWrapper;
typedef struct hipFatBinaryHandle *hipFatBinaryHandle_t;
hipFatBinaryHandle_t __hipRegisterFatBinary(const hipFatBinaryWrapper *data);
void __hipUnregisterFatBinary(hipFatBinaryHandle_t modules);
void __hipRegisterFunction(hipFatBinaryHandle_t modules, const void *hostFunction, const char *deviceFunction, const char *deviceName,
                           unsigned int threadLimit, void *tid, void *bid, dim3 *blockDim, dim3 *gridDim, int *wSize);
void __hipRegisterVar(hipFatBinaryHandle_t modules, void *var, const char *hostVar, const char *deviceVar, int ext, size_t size,
                      int constant, int global);
void __hipRegisterManagedVar(hipFatBinaryHandle_t modules, void **pointer, void *init_value, const char *name, size_t size,
                             unsigned align);

/* hip_ext.h, which only a C++ compiler reads. */
hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t globalWorkSizeX, uint32_t globalWorkSizeY, uint32_t globalWorkSizeZ,
                                    uint32_t localWorkSizeX, uint32_t localWorkSizeY, uint32_t localWorkSizeZ, size_t sharedMemBytes,
                                    hipStream_t hStream, void **kernelParams, void **extra, hipEvent_t startEvent, hipEvent_t stopEvent,
                                    uint32_t flags);

/* The emulator's own. */
const char *zynferEmulatorLastReport(void);
int zynferEmulatorCounting(int on);
const char *zynferEmulatorCounters(void);
uint64_t zynferEmulatorInstructions(void);
