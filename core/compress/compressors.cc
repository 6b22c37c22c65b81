// The list of compressors, and what follows from it.
#include <utility>

#include "core/base/error.h"
#include "core/base/row_list.h"
#include "core/compress/codes.h"
#include "core/compress/compressor_info.h"

namespace ringside {

std::int64_t CompressorContext::count() const {
  return pieces.empty() ? 0 : pieces.back().begin + pieces.back().shape.count();
}

namespace {

RowList<CompressorInfo>& compressor_list() {
  static RowList<CompressorInfo> list(
      "compressor",
      {compress::fp16_info(), compress::bf16_info(), compress::int8_info(), compress::int4_info(),
       compress::onebit_info(), compress::signsgd_info(), compress::top_k_info(),
       compress::dgc_info(), compress::random_k_info(), compress::powersgd_info()});
  return list;
}

}  // namespace

const std::vector<CompressorInfo>& compressors() { return compressor_list().rows(); }
void add_compressor(CompressorInfo row) {
  row.of_plugin = true;
  compressor_list().add(std::move(row));
}
const CompressorInfo& find_compressor(std::string_view name) {
  return compressor_list().find(name);
}

std::vector<Options> default_compressor_options() {
  std::vector<Options> out;
  for (const CompressorInfo& row : compressors())
    if (!row.options.fields().empty()) out.push_back(row.options);
  return out;
}

bool remembers(const CompressionOptions& options) {
  if (!compresses(options)) return false;
  return options.memory == ErrorMemory::by_compressor
             ? find_compressor(options.compressor).remembers
             : options.memory == ErrorMemory::residual;
}

double compressed_bytes(const CompressionOptions& options, std::span<const Shape> tensors,
                        int workers) {
  const CompressorInfo& row = find_compressor(options.compressor);
  double message = 0;
  for (const Shape& tensor : tensors) message += row.bytes(options, tensor);
  const double others = workers - 1;
  return row.move == Compressor::Move::sum ? 2 * others / workers * message : others * message;
}

Fields with_compression(CompressionOptions& options, Fields fields) {
  Fields more = {
      {"compressor", &options.compressor,
       "how the sum over workers is compressed, of gradients or of differences of replicas: see "
       "`ringside list compressors`"},
      {"memory", &options.memory,
       "what a compressor loses of what it gets (of gradients: without the learning rate): "
       "residual: it "
       "is added to the next (error "
       "feedback), with a memory of 4 bytes a parameter; none: it is lost; auto: residual for "
       "compressors that are biased"},
      {"ratio", &options.ratio,
       "topk, dgc, randomk: share of the elements of a tensor that is sent", Range::share},
      {"dgc_momentum", &options.dgc_momentum,
       "dgc: momentum of each worker's velocity; the optimizer should have no moments of its own",
       Range::not_negative},
      {"block", &options.block, "int8, int4: number of elements that have a scale of their own",
       Range::positive},
      {"matrix_approximation_rank", &options.matrix_approximation_rank,
       "powersgd: rank of the matrices that are sent", Range::positive},
      {"warm_start", &options.warm_start,
       "powersgd: begin with the matrix of the step before; false: with random numbers"},
      {"min_compression_rate", &options.min_compression_rate,
       "powersgd: matrices are compressed if this makes them more than so many times smaller; 0: "
       "all "
       "are",
       Range::not_negative},
      {"start_step", &options.start_step,
       "powersgd: steps before this one are not compressed; dgc: until this step the share that is "
       "sent falls from a quarter to ratio. A step is one sum: in diloco an exchange",
       Range::not_negative}};
  for (Options& own : options.own_options)
    for (Field& field : own.fields()) more.push_back(std::move(field));
  for (Field& field : more) {
    for (const Field& one : fields)
      if (one.name == field.name)
        throw Error(
            "two options of schemes that compress are called '{}'; give that of the plug-in's "
            "compressor another name",
            field.name);
    fields.push_back(std::move(field));
  }
  return fields;
}

}  // namespace ringside
