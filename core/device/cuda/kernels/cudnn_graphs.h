// cuDNN's graphs, built once for each shape and kept. Only the *_cudnn.cc files include this
// header.
#pragma once

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <map>
#include <memory>
#include <unordered_map>

#include "core/base/error.h"
#include "core/device/cuda/runtime/launch.h"

namespace ringside::cuda {

namespace fe = cudnn_frontend;

/// Pointers to operands, by the operands' numbers within a graph.
using GraphOperands = std::unordered_map<std::int64_t, void*>;

inline fe::DataType_t graph_type(DType dtype) {
  return dtype == DType::bf16  ? fe::DataType_t::BFLOAT16
         : dtype == DType::f16 ? fe::DataType_t::HALF
                               : fe::DataType_t::FLOAT;
}

/// Whether all addresses are multiples of 16 bytes, as cuDNN demands. Empty tensors qualify.
template <class... Tensors>
bool is_for_cudnn(const Tensors&... tensors) {
  return ((reinterpret_cast<std::uintptr_t>(tensors.template data<std::uint8_t>()) % 16 == 0) &&
          ...);
}

/// A cache of graphs by `Key`. For one thread at a time.
template <class Key>
class CudnnGraphs {
 public:
  explicit CudnnGraphs(const Context& context) : context_(context) {}
  ~CudnnGraphs() {
    graphs_.clear();
    if (handle_) cudnnDestroy(handle_);
  }
  CudnnGraphs(const CudnnGraphs&) = delete;
  CudnnGraphs& operator=(const CudnnGraphs&) = delete;

  /// Enqueues the graph of `key` and returns true. When the key first occurs, build(handle, graph,
  /// key) makes the graph. If build() returns an error or throws, cuDNN has no engine for the key;
  /// then this call and every later call with the key do nothing and return false. Throws Error
  /// with `text(key)` if cuDNN fails to run the graph.
  template <class Build, class Text>
  bool run(const Key& key, const Build& build, GraphOperands operands, const Text& text) {
    use(context_);
    Graph& graph = find(key, build);
    if (!graph.exists) return false;
    const auto workspace = context_.device.allocate(static_cast<std::size_t>(graph.workspace_bytes),
                                                    MemoryKind::workspace);
    auto status = graph.graph.execute(handle_, operands, workspace->data());
    if (status.is_bad())
      throw Error("gpu {}: cuDNN's {}: {}", context_.device.ordinal(), text(key),
                  status.get_message());
    return true;
  }

 private:
  struct Graph {
    fe::graph::Graph graph;
    std::int64_t workspace_bytes = 0;
    bool exists = false;
  };

  static void check(cudnnStatus_t status, const char* call) {
    if (status != CUDNN_STATUS_SUCCESS) throw Error("{}: {}", call, cudnnGetErrorString(status));
  }

  template <class Build>
  Graph& find(const Key& key, const Build& build) {
    // The handle is made only when it is needed, because cuDNN allocates memory of its own.
    if (!handle_) {
      check(cudnnCreate(&handle_), "cudnnCreate");
      check(cudnnSetStream(handle_, context_.stream), "cudnnSetStream");
    }
    auto& graph = graphs_[key];
    if (graph) return *graph;
    graph = std::make_unique<Graph>();
    try {
      graph->exists = build(handle_, graph->graph, key).is_good() &&
                      graph->graph.get_workspace_size(graph->workspace_bytes).is_good();
    } catch (const std::exception&) {
      graph->exists = false;  // cuDNN refuses some shapes by throwing
    }
    return *graph;
  }

  Context context_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Graph>> graphs_;
};

}  // namespace ringside::cuda
