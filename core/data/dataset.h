// Datasets, the sources of samples.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace ringside {

/// The ways to make samples of sequences with different lengths. padded: a sample is one sequence,
/// and those of a micro-batch are filled up to the longest of them. packed: a sample is a whole
/// context, in which sequences follow each other; the last of them is cut off.
enum class Packing : std::uint8_t { padded, packed };
inline constexpr std::string_view packing_names[] = {"padded", "packed"};
constexpr EnumNames names_of(Packing) { return packing_names; }

/// The [data] table of an experiment file.
struct DataConfig {
  std::string kind = "text";
  std::vector<std::string> path;
  double holdout = 0.1;
  double mean = 0.1307;  // of MNIST's pixels, like `deviation`
  double deviation = 0.3081;
  bool augment = false;
  double length_median = 64;  // of sequences, in tokens, like the next two
  double length_sigma = 1;    // of the logarithm
  std::vector<std::pair<std::int64_t, std::int64_t>> length_histogram{};  // (length, weight)
  Packing packing = Packing::padded;
  bool operator==(const DataConfig&) const = default;
};

Fields fields_of(DataConfig& config);

/// The task that a model learns on a sample. Each value is described as input -> target.
enum class Task : std::uint8_t {
  every_token,    // int32 [T] -> the token that follows each position
  last_token,     // int32 [T] -> the token that follows the last
  masked_tokens,  // int32 [2 * T + P]: tokens, their segments, P masked positions -> the P tokens
                  // that stood at these positions, and 0 if the second segment follows the first,
                  // else 1
  image_class,    // fp32 [H, W, C] -> its class
  // int32 [H * W * C + T]: the bits of an image's fp32 values, then T tokens -> the token that
  // follows each of them. A sample is one tensor, so its values have one dtype. Pixels take 4 bytes
  // in fp32, as for image_class. They are never used as int32: the model reads that part as fp32.
  caption_tokens,
  target_tokens  // int32 [S + T]: source tokens, then the tokens before each target token (0 before
                 // the first) -> the T target tokens
};
/// The description of the model's prediction.
inline constexpr std::string_view task_names[] = {"every next token",
                                                  "the next token",
                                                  "hidden tokens",
                                                  "the class of an image",
                                                  "every next token of an image's caption",
                                                  "the tokens of a target"};
constexpr EnumNames names_of(Task) { return task_names; }

/// The target of a position that is not to be predicted: it adds nothing to a loss.
inline constexpr std::int32_t no_target = -1;

/// A fixed list of samples. Several threads may read it at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// The extents and element types of one sample.
  virtual Shape input_shape() const = 0;
  virtual DType input_dtype() const = 0;
  virtual Shape target_shape() const = 0;
  /// The number of a sample's targets for each term of the loss. Targets are stored term after
  /// term.
  virtual std::vector<std::int64_t> target_parts() const { return {target_shape().count()}; }
  /// The number of tokens of a sample, if samples differ in length; the shapes above are then those
  /// of the longest. Each of these tokens has one target.
  virtual std::optional<std::int64_t> length(std::int64_t sample) const {
    static_cast<void>(sample);
    return {};
  }
  /// Writes one sample. The spans must have the sizes that the shapes above give or, if samples
  /// differ in length, at least the sample's: the rest is filled up with token 0 and no_target.
  virtual void read(std::int64_t sample, std::span<std::byte> input,
                    std::span<std::int32_t> target) const = 0;
  /// Augments an input that read() has written; the random `bits` decide how. The caller passes
  /// different bits in every epoch.
  virtual void augment(std::span<std::byte> input, std::uint64_t bits) const {
    static_cast<void>(input), static_cast<void>(bits);
  }
  /// Reads every target once, which takes as long as reading the files. Throws Error that names
  /// file and offset of the first target that is out of the model's range. Without check() such a
  /// target makes read() throw later.
  virtual void check() const {}
  /// The bytes of memory in which every process that reads the data holds files that it unpacked.
  virtual std::size_t memory() const { return 0; }
};

/// The element type of the inputs of a data set for `task`.
constexpr DType input_dtype(Task task) {
  return task == Task::image_class ? DType::f32 : DType::i32;
}

/// Throws Error if `task` is not among the tasks that the data set serves.
void require_task(std::string_view data_kind, Task task, std::initializer_list<Task> served);

}  // namespace ringside
