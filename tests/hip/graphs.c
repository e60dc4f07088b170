/* Capture and graphs by AMD's header: a stream's work kept and done later, graphs made by hand, updates, and every misuse's status. The
 * kernel is collatz: from 90 numbers 90 pairs, so that a result shows which input and which output a launch had. */
#include "abi.h"

#include <pthread.h>

static hipModule_t module;
static hipFunction_t function;
static unsigned char *input, *expected, fill[1536];

static void prepare(void) {
    function = kernel("hk.hsaco", "collatz", &module);
    input = read_file("collatz__a/in0.bin");
    expected = read_file("collatz__a/out1.bin");
    memset(fill, 205, sizeof fill);
}

/* Whether device memory holds the expected pairs (1), what was there before (0), or neither. */
static int result(void *out) {
    unsigned char got[1536];
    OK(hipMemcpy(got, out, sizeof got, hipMemcpyDeviceToHost));
    if (!memcmp(got, expected, sizeof got)) return 1;
    return memcmp(got, fill, sizeof got) ? -1 : 0;
}

static int count_nodes(hipGraph_t graph) {
    size_t count = 99;
    OK(hipGraphGetNodes(graph, NULL, &count));
    return (int)count;
}

static int node_type(hipGraphNode_t node) {
    hipGraphNodeType type = (hipGraphNodeType)-1;
    OK(hipGraphNodeGetType(node, &type));
    return (int)type;
}

static int called;

static void host_function(void *data) {
    int device = -1;
    OK(hipGetDevice(&device)); /* nothing is held while it runs */
    called += *(int *)data;
}

void captured(void) {
    prepare();
    hipStream_t stream;
    hipGraph_t graph = NULL;
    hipGraphExec_t exec = NULL;
    hipStreamCaptureStatus status;
    unsigned long long id = 0, again = 0;
    int one = 1;
    struct collatz arguments = {uploaded(fill, 768), uploaded(fill, 1536), 90};
    void *params[] = {&arguments.in, &arguments.out, &arguments.n}, *second_out = uploaded(fill, 1536), *first_out = arguments.out;
    unsigned char *staging = NULL;
    OK(hipHostMalloc((void **)&staging, 768, 0));
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipStreamIsCapturing(stream, &status));
    HOLDS(status == hipStreamCaptureStatusNone);

    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipStreamIsCapturing(stream, &status));
    HOLDS(status == hipStreamCaptureStatusActive);
    OK(hipStreamGetCaptureInfo(stream, &status, &id));
    OK(hipMemcpyAsync(arguments.in, staging, 768, hipMemcpyHostToDevice, stream));
    OK(hipMemsetAsync(arguments.out, 205, 1536, stream));
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    OK(hipLaunchHostFunc(stream, host_function, &one));
    const hipGraphNode_t *last = NULL;
    size_t count = 0;
    OK(hipStreamGetCaptureInfo_v2(stream, &status, &again, &graph, &last, &count));
    HOLDS(status == hipStreamCaptureStatusActive && again == id && graph && count == 1 && node_type(last[0]) == hip64GraphNodeTypeHost);
    struct collatz kept = arguments;
    memset(&arguments, 0xff, sizeof arguments); /* they were copied */
    graph = NULL;
    OK(hipStreamEndCapture(stream, &graph));
    arguments = kept;
    HOLDS(graph && count_nodes(graph) == 4 && called == 0);
    HOLDS(result(first_out) == 0); /* nothing was done yet */
    hipGraphNode_t nodes[6];
    count = 6;
    OK(hipGraphGetNodes(graph, nodes, &count));
    HOLDS(count == 4 && !nodes[4] && !nodes[5]); /* room that is left is emptied */
    int types[] = {hip64GraphNodeTypeMemcpy, hip64GraphNodeTypeMemset, hip64GraphNodeTypeKernel, hip64GraphNodeTypeHost};
    for (int i = 0; i < 4; i++) HOLDS(node_type(nodes[i]) == types[i]);
    hipGraphNode_t from[4], to[4];
    count = 4;
    OK(hipGraphGetEdges(graph, from, to, &count));
    HOLDS(count == 3 && from[0] == nodes[0] && to[0] == nodes[1] && from[2] == nodes[2] && to[2] == nodes[3]);

    OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HOLDS(result(first_out) == 0 && called == 0);
    memcpy(staging, input, 768); /* a copy's source is read when the graph is launched */
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    HOLDS(result(first_out) == 1 && called == 1);
    OK(hipMemcpy(first_out, fill, 1536, hipMemcpyHostToDevice));
    OK(hipGraphLaunch(exec, NULL));
    OK(hipGraphUpload(exec, stream));
    HOLDS(result(first_out) == 1 && called == 2);

    /* A kernel's arguments and a fill's target are changed in the executable graph; the graph stays as it is. */
    hipKernelNodeParams node = {0};
    OK(hipGraphKernelNodeGetParams(nodes[2], &node));
    HOLDS(node.func == function && node.gridDim.x == 3 && node.gridDim.y == 1 && node.blockDim.x == 64 && node.sharedMemBytes == 0);
    HOLDS(*(void **)node.kernelParams[0] == kept.in && *(void **)node.kernelParams[1] == first_out && *(uint32_t *)node.kernelParams[2] == 90);
    arguments.out = second_out;
    node.kernelParams = params;
    OK(hipGraphExecKernelNodeSetParams(exec, nodes[2], &node));
    OK(hipMemcpy(first_out, fill, 1536, hipMemcpyHostToDevice));
    OK(hipGraphLaunch(exec, stream));
    HOLDS(result(second_out) == 1 && result(first_out) == 0);
    OK(hipGraphKernelNodeGetParams(nodes[2], &node));
    HOLDS(*(void **)node.kernelParams[1] == first_out);

    /* A whole update: the same shape with other arguments. */
    hipGraph_t other = NULL;
    hipGraphNode_t bad = (hipGraphNode_t)1;
    hipGraphExecUpdateResult updated = hipGraphExecUpdateError;
    arguments.out = first_out;
    OK(hipMemcpy(second_out, fill, 1536, hipMemcpyHostToDevice));
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    OK(hipMemcpyAsync(arguments.in, staging, 768, hipMemcpyHostToDevice, stream));
    OK(hipMemsetAsync(arguments.out, 205, 1536, stream));
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    OK(hipLaunchHostFunc(stream, host_function, &one));
    OK(hipStreamEndCapture(stream, &other));
    OK(hipGraphExecUpdate(exec, other, &bad, &updated));
    HOLDS(updated == hipGraphExecUpdateSuccess && bad == NULL);
    called = 0;
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    HOLDS(result(first_out) == 1 && result(second_out) == 0 && called == 1);

    /* Other shapes are refused, and what was there still runs. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    OK(hipMemsetAsync(arguments.out, 205, 1536, stream));
    hipGraph_t shorter = NULL, swapped = NULL;
    OK(hipStreamEndCapture(stream, &shorter));
    STATUS(hipGraphExecUpdate(exec, shorter, &bad, &updated), hipErrorGraphExecUpdateFailure);
    HOLDS(updated == hipGraphExecUpdateErrorTopologyChanged);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    OK(hipMemcpyAsync(arguments.in, staging, 768, hipMemcpyHostToDevice, stream));
    OK(hipModuleLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    OK(hipMemsetAsync(arguments.out, 205, 1536, stream));
    OK(hipLaunchHostFunc(stream, host_function, &one));
    OK(hipStreamEndCapture(stream, &swapped));
    STATUS(hipGraphExecUpdate(exec, swapped, &bad, &updated), hipErrorGraphExecUpdateFailure);
    HOLDS(updated == hipGraphExecUpdateErrorNodeTypeChanged && node_type(bad) == hip64GraphNodeTypeKernel);
    OK(hipGraphLaunch(exec, stream));
    HOLDS(result(first_out) == 1 && called == 2);

    /* An executable graph does not need its graph, nor a launch's copy of the module's handle. */
    OK(hipGraphDestroy(graph));
    STATUS(hipGraphDestroy(graph), hipErrorIllegalState);
    STATUS(hipGraphGetNodes(graph, NULL, &count), hipErrorInvalidValue);
    OK(hipGraphLaunch(exec, stream));
    HOLDS(called == 3);

    /* A node that is switched off is left out. */
    unsigned enabled = 9;
    hipGraphExec_t switched = NULL;
    OK(hipGraphInstantiateWithFlags(&switched, other, 0));
    count = 4;
    OK(hipGraphGetNodes(other, nodes, &count));
    OK(hipGraphNodeSetEnabled(switched, nodes[2], 0));
    OK(hipGraphNodeGetEnabled(switched, nodes[2], &enabled));
    HOLDS(enabled == 0);
    OK(hipGraphLaunch(switched, stream));
    HOLDS(result(first_out) == 0 && called == 4);
    OK(hipGraphNodeSetEnabled(switched, nodes[2], 1));
    OK(hipGraphLaunch(switched, stream));
    HOLDS(result(first_out) == 1);
    STATUS(hipGraphInstantiateWithFlags(&switched, other, 0x40), hipErrorInvalidValue);

    /* A launch that is captured becomes a part of the graph. */
    hipGraph_t outer = NULL;
    hipGraphExec_t outer_exec = NULL;
    OK(hipMemcpy(first_out, fill, 1536, hipMemcpyHostToDevice));
    called = 0;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipGraphLaunch(switched, stream));
    OK(hipLaunchHostFunc(stream, host_function, &one));
    OK(hipStreamEndCapture(stream, &outer));
    HOLDS(called == 0 && result(first_out) == 0 && count_nodes(outer) == 2);
    OK(hipGraphInstantiate(&outer_exec, outer, NULL, NULL, 0));
    OK(hipGraphLaunch(outer_exec, stream));
    HOLDS(called == 2 && result(first_out) == 1);

    /* What a graph needs may go before it is launched: a status, not a crash. */
    OK(hipModuleUnload(module));
    STATUS(hipGraphLaunch(exec, stream), hipErrorInvalidHandle);
    OK(hipGraphExecDestroy(exec));
    STATUS(hipGraphExecDestroy(exec), hipErrorInvalidValue);
    STATUS(hipGraphLaunch(exec, stream), hipErrorInvalidValue);
    STATUS(hipGraphExecUpdate(exec, other, &bad, &updated), hipErrorInvalidValue);
}

void by_hand(void) {
    prepare();
    hipGraph_t graph = NULL, child = NULL, clone = NULL, found_graph = NULL;
    hipGraphExec_t exec = NULL;
    hipGraphNode_t copy, set, run, host, embedded, nothing, record, back, found, list[16];
    hipStream_t stream;
    hipEvent_t event, other_event, found_event;
    unsigned char got[1536] = {0};
    size_t count = 16;
    int two = 2, five = 5;
    struct collatz arguments = {uploaded(fill, 768), uploaded(fill, 1536), 90};
    void *params[] = {&arguments.in, &arguments.out, &arguments.n};
    OK(hipStreamCreate(&stream));
    OK(hipEventCreate(&event));
    OK(hipEventCreate(&other_event));
    OK(hipGraphCreate(&graph, 0));
    STATUS(hipGraphCreate(&child, 1), hipErrorInvalidValue);
    STATUS(hipGraphCreate(NULL, 0), hipErrorInvalidValue);
    OK(hipGraphCreate(&child, 0));

    /* The kernel node first, so that order comes from edges: copy and set before it. */
    hipKernelNodeParams node = {.func = function, .gridDim = {3, 1, 1}, .blockDim = {64, 1, 1}, .kernelParams = params};
    OK(hipGraphAddKernelNode(&run, graph, NULL, 0, &node));
    OK(hipGraphAddMemcpyNode1D(&copy, graph, NULL, 0, arguments.in, input, 768, hipMemcpyHostToDevice));
    hipMemsetParams filled = {.dst = arguments.out, .elementSize = 4, .value = 0xcdcdcdcd, .width = 1536 / 4, .height = 1, .pitch = 0};
    OK(hipGraphAddMemsetNode(&set, graph, NULL, 0, &filled));
    hipGraphNode_t before[] = {copy, set}, after[] = {run, run};
    OK(hipGraphAddDependencies(graph, before, after, 2));
    STATUS(hipGraphAddDependencies(graph, before, after, 1), hipErrorInvalidValue); /* it is there */
    STATUS(hipGraphAddDependencies(graph, &run, &run, 1), hipErrorInvalidValue);
    OK(hipGraphAddMemcpyNode1D(&back, graph, &run, 1, got, arguments.out, 1536, hipMemcpyDeviceToHost));
    hipHostNodeParams call = {host_function, &two}, called_params = {0};
    OK(hipGraphAddHostNode(&host, graph, &back, 1, &call));
    OK(hipGraphHostNodeGetParams(host, &called_params));
    HOLDS(called_params.fn == host_function && called_params.userData == &two);
    hipHostNodeParams inner_call = {host_function, &five};
    OK(hipGraphAddHostNode(&found, child, NULL, 0, &inner_call));
    OK(hipGraphAddChildGraphNode(&embedded, graph, &host, 1, child));
    OK(hipGraphAddEmptyNode(&nothing, graph, NULL, 0));
    OK(hipGraphAddEventRecordNode(&record, graph, &embedded, 1, event));
    OK(hipGraphEventRecordNodeGetEvent(record, &found_event));
    HOLDS(found_event == event);

    OK(hipGraphGetNodes(graph, list, &count));
    HOLDS(count == 8);
    int place[8] = {0};
    hipGraphNode_t order[] = {copy, set, run, back, host, embedded, record, nothing};
    for (int i = 0; i < 8; i++) {
        for (int at = 0; at < 8; at++) {
            if (list[at] == order[i]) place[i] = at + 1;
        }
        HOLDS(place[i]);
    }
    for (int i = 2; i < 7; i++) HOLDS(place[i] > place[i - 1]); /* each after what it waits for */
    HOLDS(place[2] > place[0]);
    count = 16;
    OK(hipGraphGetRootNodes(graph, list, &count));
    HOLDS(count == 3);
    count = 16;
    OK(hipGraphNodeGetDependencies(run, list, &count));
    HOLDS(count == 2 && list[0] == copy && list[1] == set);
    count = 1;
    OK(hipGraphNodeGetDependentNodes(run, list, &count));
    HOLDS(count == 1 && list[0] == back);

    OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    called = 0;
    OK(hipEventRecord(other_event, stream));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    HOLDS(!memcmp(got, expected, 1536) && called == 7);
    float ms = -1;
    OK(hipEventElapsedTime(&ms, other_event, event));
    HOLDS(ms >= 0);

    /* Parameters, read and changed, in the executable graph and in the graph. */
    hipMemsetParams read_back = {0};
    OK(hipGraphMemsetNodeGetParams(set, &read_back));
    HOLDS(read_back.dst == filled.dst && read_back.elementSize == 4 && read_back.width == 384 && read_back.height == 1);
    hipMemcpy3DParms copied;
    OK(hipGraphMemcpyNodeGetParams(copy, &copied));
    HOLDS(copied.srcPtr.ptr == input && copied.dstPtr.ptr == arguments.in && copied.extent.width == 768 && copied.extent.height == 1);
    STATUS(hipGraphMemcpyNodeGetParams(run, &copied), hipErrorInvalidValue);
    STATUS(hipGraphKernelNodeGetParams(copy, &node), hipErrorInvalidValue);
    filled.value = 0x01010101;
    OK(hipGraphExecMemsetNodeSetParams(exec, set, &filled));
    inner_call.userData = &two;
    OK(hipGraphExecHostNodeSetParams(exec, host, &call));
    STATUS(hipGraphExecHostNodeSetParams(exec, found, &call), hipErrorInvalidValue); /* of another graph */
    OK(hipGraphExecMemcpyNodeSetParams1D(exec, back, got, arguments.out, 8, hipMemcpyDeviceToHost));
    STATUS(hipGraphExecMemcpyNodeSetParams1D(exec, back, arguments.out, got, 8, hipMemcpyHostToDevice), hipErrorInvalidValue);
    STATUS(hipGraphExecMemcpyNodeSetParams1D(exec, run, got, arguments.out, 8, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipGraphMemcpyNodeSetParams1D(back, got, arguments.out, 0, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    STATUS(hipGraphMemcpyNodeSetParams1D(back, got, arguments.out, 1537, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    memset(got, 0, sizeof got);
    OK(hipGraphLaunch(exec, stream));
    HOLDS(!memcmp(got, expected, 8) && got[8] == 0);
    OK(hipGraphExecEventRecordNodeSetEvent(exec, record, other_event));
    STATUS(hipGraphExecEventRecordNodeSetEvent(exec, record, (hipEvent_t)0x40), hipErrorInvalidHandle);

    /* Clones and embedded graphs. */
    OK(hipGraphClone(&clone, graph));
    HOLDS(count_nodes(clone) == 8);
    OK(hipGraphNodeFindInClone(&found, run, clone));
    HOLDS(found != run && node_type(found) == hip64GraphNodeTypeKernel);
    STATUS(hipGraphNodeFindInClone(&found, run, graph), hipErrorInvalidValue);
    OK(hipGraphChildGraphNodeGetGraph(embedded, &found_graph));
    HOLDS(found_graph != child && count_nodes(found_graph) == 1);
    STATUS(hipGraphDestroy(found_graph), hipErrorInvalidValue); /* it belongs to its node */
    OK(hipGraphDestroy(child));
    called = 0;
    OK(hipGraphLaunch(exec, stream));
    HOLDS(called == 7);

    /* Edges and nodes go; a circle is no graph that could run. */
    OK(hipGraphRemoveDependencies(graph, before, after, 1));
    STATUS(hipGraphRemoveDependencies(graph, before, after, 1), hipErrorInvalidValue);
    OK(hipGraphDestroyNode(host));
    STATUS(hipGraphDestroyNode(host), hipErrorInvalidValue);
    HOLDS(count_nodes(graph) == 7);
    OK(hipGraphAddDependencies(graph, &back, &set, 1));
    hipGraphExec_t circle = NULL;
    STATUS(hipGraphInstantiate(&circle, graph, NULL, NULL, 0), hipErrorInvalidValue);
    hipGraphInstantiateParams with = {.flags = 0};
    STATUS(hipGraphInstantiateWithParams(&circle, graph, &with), hipErrorInvalidValue);
    HOLDS(with.result_out == hip64GraphInstantiateInvalidStructure);
    OK(hipGraphInstantiateWithParams(&circle, clone, &with));
    unsigned long long flags = 9;
    OK(hipGraphExecGetFlags(circle, &flags));
    HOLDS(with.result_out == 0 && flags == 0);

    /* What no node can do is refused when it is added. */
    node.func = (void *)0x1230;
    STATUS(hipGraphAddKernelNode(&found, clone, NULL, 0, &node), hipErrorInvalidDeviceFunction);
    node.func = function;
    node.kernelParams = NULL;
    STATUS(hipGraphAddKernelNode(&found, clone, NULL, 0, &node), hipErrorInvalidValue);
    node.kernelParams = params;
    node.gridDim.x = 0;
    STATUS(hipGraphAddKernelNode(&found, clone, NULL, 0, &node), hipErrorInvalidValue);
    node.gridDim.x = 3;
    STATUS(hipGraphAddKernelNode(&found, clone, &run, 1, &node), hipErrorInvalidValue); /* a dependency of another graph */
    STATUS(hipGraphAddKernelNode(&found, clone, NULL, 1, &node), hipErrorInvalidValue);
    STATUS(hipGraphAddKernelNode(NULL, clone, NULL, 0, &node), hipErrorInvalidValue);
    STATUS(hipGraphAddKernelNode(&found, (hipGraph_t)0x99, NULL, 0, &node), hipErrorInvalidValue);
    STATUS(hipGraphAddMemcpyNode1D(&found, clone, NULL, 0, arguments.in, input, 769, hipMemcpyHostToDevice), hipErrorInvalidValue);
    filled.elementSize = 3;
    STATUS(hipGraphAddMemsetNode(&found, clone, NULL, 0, &filled), hipErrorInvalidValue);
    STATUS(hipGraphAddHostNode(&found, clone, NULL, 0, NULL), hipErrorInvalidValue);
    STATUS(hipGraphAddEventRecordNode(&found, clone, NULL, 0, (hipEvent_t)0x40), hipErrorInvalidHandle);
    HOLDS(count_nodes(clone) == 8);
    OK(hipGraphDestroy(clone));
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, stream));
    OK(hipModuleUnload(module));
}

static hipStream_t shared;
static hipError_t from_thread;

static void *end_elsewhere(void *data) {
    hipGraph_t graph;
    (void)data;
    from_thread = hipStreamEndCapture(shared, &graph);
    return NULL;
}

static void *allocate_elsewhere(void *data) {
    void *memory = NULL;
    (void)data;
    from_thread = hipMalloc(&memory, 16);
    return NULL;
}

static int on_thread(void *(*work)(void *)) {
    pthread_t thread;
    HOLDS(!pthread_create(&thread, NULL, work, NULL));
    HOLDS(!pthread_join(thread, NULL));
    return from_thread;
}

/* Ends a capture that something spoiled: the graph is gone, the stream is usable again. */
static void ends_spoiled(hipStream_t stream) {
    hipStreamCaptureStatus status;
    hipGraph_t graph = (hipGraph_t)1;
    OK(hipStreamIsCapturing(stream, &status));
    HOLDS(status == hipStreamCaptureStatusInvalidated);
    STATUS(hipMemsetAsync(NULL, 0, 0, stream), hipErrorStreamCaptureInvalidated);
    STATUS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
    HOLDS(graph == NULL);
    OK(hipStreamIsCapturing(stream, &status));
    HOLDS(status == hipStreamCaptureStatusNone);
    OK(hipStreamSynchronize(stream));
}

void misuse(void) {
    prepare();
    hipStream_t stream, second, blocking;
    hipEvent_t fork, join, outside;
    hipGraph_t graph = NULL;
    hipGraphExec_t exec;
    hipGraphNode_t list[4];
    hipStreamCaptureStatus status;
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    size_t count = 4;
    void *memory = uploaded(fill, 1536), *other = uploaded(fill, 1536), *more = NULL;
    unsigned char got[4];
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    OK(hipStreamCreate(&blocking));
    OK(hipEventCreate(&fork));
    OK(hipEventCreate(&join));
    OK(hipEventCreate(&outside));

    /* A fork by an event, and its join. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipMemsetAsync(memory, 1, 4, stream));
    OK(hipEventRecord(fork, stream));
    OK(hipStreamWaitEvent(second, fork, 0));
    OK(hipStreamIsCapturing(second, &status));
    HOLDS(status == hipStreamCaptureStatusActive);
    OK(hipMemsetAsync(other, 2, 4, second));
    OK(hipMemsetAsync(memory, 3, 2, stream));
    OK(hipEventRecord(join, second));
    STATUS(hipStreamEndCapture(second, &graph), hipErrorStreamCaptureUnmatched);
    OK(hipStreamWaitEvent(stream, join, 0));
    OK(hipMemcpyAsync(memory, other, 1, hipMemcpyDeviceToDevice, stream));
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipStreamIsCapturing(second, &status));
    HOLDS(status == hipStreamCaptureStatusNone);
    HOLDS(count_nodes(graph) == 4);
    OK(hipGraphGetNodes(graph, list, &count));
    count = 4;
    hipGraphNode_t waits[4];
    OK(hipGraphNodeGetDependencies(list[3], waits, &count));
    HOLDS(count == 2); /* the last copy waits for both sides */
    OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipMemcpy(got, memory, 4, hipMemcpyDeviceToHost));
    HOLDS(got[0] == 2 && got[1] == 3 && got[2] == 1 && got[3] == 1);

    /* A side that nobody joins. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    OK(hipStreamWaitEvent(second, fork, 0));
    OK(hipMemsetAsync(other, 2, 4, second));
    OK(hipMemsetAsync(memory, 2, 4, stream));
    STATUS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureUnjoined);
    HOLDS(graph == NULL);
    OK(hipStreamSynchronize(second));

    /* Where a capture cannot begin or end. */
    STATUS(hipStreamBeginCapture(NULL, hipStreamCaptureModeGlobal), hipErrorStreamCaptureUnsupported);
    STATUS(hipStreamBeginCapture(stream, (hipStreamCaptureMode)3), hipErrorInvalidValue);
    STATUS(hipStreamBeginCapture((hipStream_t)0x1230, hipStreamCaptureModeGlobal), hipErrorInvalidHandle);
    STATUS(hipStreamEndCapture(stream, &graph), hipErrorIllegalState);
    STATUS(hipStreamEndCapture(NULL, &graph), hipErrorIllegalState);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipErrorIllegalState);
    STATUS(hipStreamEndCapture(stream, NULL), hipErrorInvalidValue);
    shared = stream;
    STATUS(on_thread(end_elsewhere), hipErrorStreamCaptureWrongThread);
    OK(hipStreamEndCapture(stream, &graph));
    HOLDS(count_nodes(graph) == 0);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    OK(on_thread(end_elsewhere));

    /* Waiting and asking while capturing spoils the capture. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipStreamSynchronize(stream), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    STATUS(hipStreamQuery(stream), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipDeviceSynchronize(), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipStreamSynchronize(second), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    STATUS(hipEventQuery(fork), hipErrorCapturedEvent);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    STATUS(hipEventSynchronize(fork), hipErrorCapturedEvent);
    ends_spoiled(stream);

    /* What runs on the null stream waits for blocking streams, and so would for a capturing one. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    STATUS(hipMemcpy(got, memory, 4, hipMemcpyDeviceToHost), hipErrorStreamCaptureImplicit);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(blocking, hipStreamCaptureModeRelaxed));
    STATUS(hipMemsetAsync(memory, 0, 4, NULL), hipErrorStreamCaptureImplicit);
    STATUS(hipStreamIsCapturing(NULL, &status), hipErrorStreamCaptureImplicit);
    ends_spoiled(blocking);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    OK(hipMemsetAsync(memory, 0, 4, NULL)); /* a non-blocking stream has no such tie */
    OK(hipStreamIsCapturing(NULL, &status));
    HOLDS(status == hipStreamCaptureStatusNone);
    OK(hipStreamEndCapture(stream, &graph));

    /* Calls that may wait: how far each mode reaches. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipMalloc(&more, 16), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(on_thread(allocate_elsewhere), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    OK(on_thread(allocate_elsewhere));
    STATUS(hipFree(memory), hipErrorStreamCaptureUnsupported);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    OK(hipMalloc(&more, 16));
    OK(hipFree(more));
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == hipStreamCaptureModeGlobal);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipMalloc(&more, 16)); /* this thread asked not to be checked */
    STATUS(hipMallocAsync(&more, 16, stream), hipErrorNotSupported); /* no nodes that allocate */
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == hipStreamCaptureModeRelaxed);
    mode = (hipStreamCaptureMode)7;
    STATUS(hipThreadExchangeStreamCaptureMode(&mode), hipErrorInvalidValue);

    /* Events between captures and the rest. */
    OK(hipEventRecord(outside, second));
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipStreamWaitEvent(stream, outside, 0), hipErrorStreamCaptureIsolation);
    ends_spoiled(stream);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipStreamBeginCapture(second, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    STATUS(hipStreamWaitEvent(second, fork, 0), hipErrorStreamCaptureMerge);
    STATUS(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated); /* both are spoiled */
    ends_spoiled(second);
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    STATUS(hipStreamWaitEvent(NULL, fork, 0), hipErrorStreamCaptureImplicit);
    ends_spoiled(stream);

    /* Refusals of a launch are the same in a capture, and add nothing. */
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    STATUS(hipModuleLaunchKernel(function, 0, 1, 1, 64, 1, 1, 0, stream, NULL, NULL), hipErrorInvalidValue);
    STATUS(hipMemsetAsync(memory, 0, 1537, stream), hipErrorInvalidValue);
    OK(hipStreamEndCapture(stream, &graph));
    HOLDS(count_nodes(graph) == 0);

    /* Nodes by hand in a capture, and dependencies changed on the way. */
    hipGraph_t filled = NULL;
    hipGraphNode_t node;
    const hipGraphNode_t *last;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipMemsetAsync(memory, 1, 4, stream));
    OK(hipStreamGetCaptureInfo_v2(stream, &status, NULL, &filled, &last, &count));
    HOLDS(count == 1);
    STATUS(hipGraphDestroy(filled), hipErrorIllegalState);
    OK(hipGraphAddEmptyNode(&node, filled, last, count));
    OK(hipStreamUpdateCaptureDependencies(stream, &node, 1, hipStreamSetCaptureDependencies));
    OK(hipMemsetAsync(memory, 2, 4, stream));
    OK(hipStreamEndCapture(stream, &graph));
    HOLDS(graph == filled && count_nodes(graph) == 3);
    STATUS(hipStreamUpdateCaptureDependencies(stream, &node, 1, 0), hipErrorIllegalState);

    /* Into a graph that is there. */
    OK(hipStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, hipStreamCaptureModeRelaxed));
    OK(hipMemsetAsync(memory, 3, 4, stream));
    OK(hipStreamEndCapture(stream, &filled));
    HOLDS(filled == graph && count_nodes(graph) == 4);

    /* A stream that goes takes its capture with it; one that had joined spoils it. */
    OK(hipStreamBeginCapture(second, hipStreamCaptureModeGlobal));
    OK(hipStreamDestroy(second));
    OK(hipMalloc(&more, 16));
    OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    OK(hipEventRecord(fork, stream));
    OK(hipStreamWaitEvent(second, fork, 0));
    OK(hipStreamDestroy(second));
    ends_spoiled(stream);
}
