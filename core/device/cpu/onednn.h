// The runner of oneDNN's primitives.
#pragma once

#include <dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu::onednn {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Arguments = std::unordered_map<int, dnnl::memory>;

/// oneDNN's name of `dtype`, which is fp32 or bf16: oneDNN 2 does not support fp16 on CPUs.
inline dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// Runs oneDNN's primitives. They compute in scratch memory of the device, because oneDNN's own
/// scratch memory would tie a primitive to the thread that made it.
class Runner {
 public:
  explicit Runner(const Context& context) : context_(context) { set_team(context.threads); }

  const dnnl::engine& engine() const { return engine_; }
  /// Makes new attributes each time, because the copies of a dnnl object share its state: a change
  /// of one copy would change all.
  static dnnl::primitive_attr attributes() {
    dnnl::primitive_attr out;
    out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return out;
  }

  dnnl::memory memory(const Desc& desc, const Tensor& tensor) const {
    return {desc, engine_, tensor.data<std::uint8_t>()};
  }
  /// Allocates scratch memory for `desc`; `keep` then owns the memory.
  dnnl::memory scratch(const Desc& desc, Tensor& keep) const {
    keep = context_.device.tensor(Shape{static_cast<std::int64_t>(desc.get_size())},
                                  MemoryKind::workspace, DType::u8);
    return {desc, engine_, keep.data<std::uint8_t>()};
  }

  template <class Primitive, class PrimitiveDesc>
  void run(const PrimitiveDesc& desc, Arguments arguments) {
    Tensor keep;
    if (desc.scratchpad_desc().get_size() > 0)
      arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch(desc.scratchpad_desc(), keep));
    Primitive(desc).execute(stream_, arguments);
  }

  void reorder(const dnnl::memory& from, const dnnl::memory& to) {
    const dnnl::reorder::primitive_desc desc(engine_, from.get_desc(), engine_, to.get_desc(),
                                             attributes());
    run<dnnl::reorder>(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  /// Returns `ours` if it has the layout `wanted`, else a reordered copy, whose memory `keep` owns.
  dnnl::memory laid_out(const dnnl::memory& ours, const Desc& wanted, Tensor& keep) {
    if (ours.get_desc() == wanted) return ours;
    const dnnl::memory theirs = scratch(wanted, keep);
    reorder(ours, theirs);
    return theirs;
  }

 private:
  const Context& context_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace ringside::cpu::onednn
