#include "core/base/error.h"
#include "core/data/cifar.h"
#include "core/data/idx.h"
#include "core/data/masked.h"
#include "core/data/synthetic.h"
#include "core/data/synthetic_captions.h"
#include "core/data/synthetic_images.h"
#include "core/data/synthetic_lengths.h"
#include "core/data/synthetic_pairs.h"
#include "core/data/text.h"
#include "core/data/text_files.h"
#include "core/data/token_files.h"
#include "core/data/tokens.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t synthetic_samples = std::int64_t{1} << 40;
constexpr std::uint64_t mask_seed = 1;

using Files = std::vector<fs::path>;

DataFiles none(const DataConfig&) { return {}; }

/// Makes both parts of a data set; `part` makes one of them out of some files. The held-out part
/// consists of the files that are marked as held out or, if there are none, of a share (`holdout`)
/// of the training files. A `holdout` of 0 means no held-out part.
template <class Make>
Datasets of_files(const DataFiles& files, double holdout, const Make& part) {
  if (holdout == 0) return {part(files.training, Split::training, 0.0), nullptr};
  if (files.held_out.empty())
    return {part(files.training, Split::training, holdout),
            part(files.training, Split::held_out, holdout)};
  return {part(files.training, Split::training, 0.0), part(files.held_out, Split::training, 0.0)};
}

/// Throws Error unless the images of the data have the shape that the model takes.
void require_image(const Dataset& data, const ModelConfig& model) {
  const Shape wanted{model.image, model.image, model.channels};
  const Shape& is = data.input_shape();
  if (is != wanted)
    throw Error(
        "data: the images are {}, the model takes {}; set model.image = {} and model.channels = {}",
        is.text(), wanted.text(), is[0], is[2]);
}

/// Plain tokens in their order, or, for the task of masked tokens, pairs of sentences in which some
/// tokens are hidden. `plain(context, vocabulary, task)` makes the data set of plain tokens.
template <class Plain>
std::unique_ptr<Dataset> of_tokens(const ModelConfig& model, Task task, const Plain& plain) {
  if (task != Task::masked_tokens) return plain(model.context, model.vocabulary, task);
  if (model.segments < 2)
    throw Error(
        "model.segments = {} is too small; each sample has 2 segments, so it has to be 2 or more",
        model.segments);
  const std::int64_t length = pair_length(model.context, model.vocabulary);
  return masked_dataset(plain(length, model.vocabulary - special_tokens, Task::last_token),
                        model.context, model.vocabulary, model.masked, mask_seed);
}

Datasets make_text(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("text", task, {Task::every_token, Task::last_token, Task::masked_tokens});
  const DataFiles files = text_files(data.path);
  return of_files(files, data.holdout, [&](const Files& some, Split split, double holdout) {
    return of_tokens(model, task, [&](std::int64_t context, std::int64_t vocabulary, Task plain) {
      constexpr std::int64_t bytes = 256;
      if (vocabulary < bytes)
        throw Error("model.vocabulary = {} is too small for bytes of text; set it to {}",
                    model.vocabulary, model.vocabulary - vocabulary + bytes);
      return text_dataset(some, context, plain, split, holdout);
    });
  });
}

Datasets make_tokens(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("tokens", task, {Task::every_token, Task::last_token, Task::masked_tokens});
  return of_files(
      token_files(data.path), data.holdout, [&](const Files& some, Split split, double holdout) {
        return of_tokens(model, task,
                         [&](std::int64_t context, std::int64_t vocabulary, Task plain) {
                           return token_dataset(some, context, vocabulary, plain, split, holdout);
                         });
      });
}

Datasets make_idx(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("idx", task, {Task::image_class});
  return of_files(idx_files(data.path), data.holdout,
                  [&](const Files& pair, Split split, double holdout) {
                    auto part = idx_dataset(pair.at(0), pair.at(1), model.classes, data.mean,
                                            data.deviation, split, holdout);
                    require_image(*part, model);
                    return part;
                  });
}

DatasetInfo cifar_row(Cifar set, std::string_view name, std::string_view summary) {
  const auto make = [set, name](const DataConfig& data, const ModelConfig& model, Task task) {
    require_task(name, task, {Task::image_class});
    bool training = true;  // the first part that is made is the training part
    return of_files(cifar_files(set, data.path), data.holdout,
                    [&](const Files& files, Split split, double holdout) {
                      auto part = cifar_dataset(set, files, model.classes,
                                                std::exchange(training, false) && data.augment,
                                                split, holdout);
                      require_image(*part, model);
                      return part;
                    });
  };
  return {name, summary, [set](const DataConfig& data) { return cifar_files(set, data.path); },
          false, make};
}

/// Random numbers of seed 1 make the training samples, those of seed 2 the held-out samples.
template <class Make>
Datasets of_seeds(double holdout, const Make& part) {
  return {part(std::uint64_t{1}), holdout > 0 ? part(std::uint64_t{2}) : nullptr};
}

Datasets make_synthetic(std::string_view kind, std::initializer_list<Task> served,
                        const DataConfig& data, const ModelConfig& model, Task task) {
  require_task(kind, task, served);
  return of_seeds(data.holdout, [&](std::uint64_t seed) {
    return of_tokens(model, task, [&](std::int64_t context, std::int64_t vocabulary, Task plain) {
      return synthetic_dataset(synthetic_samples, context, vocabulary, plain, seed);
    });
  });
}

Datasets make_synthetic_images(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("synthetic-images", task, {Task::image_class});
  return of_seeds(data.holdout, [&](std::uint64_t seed) {
    return synthetic_images_dataset(synthetic_samples, {model.image, model.image, model.channels},
                                    model.classes, seed);
  });
}

Datasets make_synthetic_captions(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("synthetic-captions", task, {Task::caption_tokens});
  return of_seeds(data.holdout, [&](std::uint64_t seed) {
    return synthetic_captions_dataset(synthetic_samples, {model.image, model.image, model.channels},
                                      model.classes, model.context, model.vocabulary, seed);
  });
}

Datasets make_synthetic_pairs(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("synthetic-pairs", task, {Task::target_tokens});
  const std::int64_t targets = model.target_context == 0 ? model.context : model.target_context;
  return of_seeds(data.holdout, [&](std::uint64_t seed) {
    return synthetic_pairs_dataset(synthetic_samples, model.context, targets, model.vocabulary,
                                   seed);
  });
}

Datasets make_synthetic_lengths(const DataConfig& data, const ModelConfig& model, Task task) {
  require_task("synthetic-lengths", task, {Task::every_token});
  const Lengths lengths{data.length_median, data.length_sigma, data.length_histogram};
  return of_seeds(data.holdout, [&](std::uint64_t seed) {
    return synthetic_lengths_dataset(synthetic_samples, model.context, model.vocabulary, lengths,
                                     data.packing, seed);
  });
}

}  // namespace

std::vector<DatasetInfo> own_datasets() {
  return {
      {"text",
       "text files, or folders of them; gzip may have compressed them; "
       "the model predicts next or hidden bytes",
       [](const DataConfig& data) { return text_files(data.path); }, true, make_text},
      {"tokens", "llm.c token files or their folder, where names with the part val are held out",
       [](const DataConfig& data) { return token_files(data.path); }, false, make_tokens},
      {"idx", "MNIST's format; in a folder with train and t10k files, the t10k files are held out",
       [](const DataConfig& data) { return idx_files(data.path); }, false, make_idx},
      cifar_row(Cifar::ten, "cifar10", "binary version; test_batch.bin is held out"),
      cifar_row(Cifar::hundred, "cifar100", "binary version, fine labels; test.bin is held out"),
      {"synthetic", "random tokens that the program makes; needs no path, and never ends", none,
       false,
       [](const DataConfig& data, const ModelConfig& model, Task task) {
         return make_synthetic("synthetic", {Task::every_token, Task::last_token}, data, model,
                               task);
       }},
      {"synthetic-lengths", "random sequences of log-normal or given lengths, padded or packed",
       none, false, make_synthetic_lengths},
      {"synthetic-masked", "pairs of sentences of random tokens, some of them hidden", none, false,
       [](const DataConfig& data, const ModelConfig& model, Task task) {
         return make_synthetic("synthetic-masked", {Task::masked_tokens}, data, model, task);
       }},
      {"synthetic-pairs", "a source of random tokens, and a target that repeats it", none, false,
       make_synthetic_pairs},
      {"synthetic-images", "random images in the model's shape: noise, and a wave for each class",
       none, false, make_synthetic_images},
      {"synthetic-captions", "these images, each with tokens that follow each other by its class",
       none, false, make_synthetic_captions},
  };
}

}  // namespace ringside::runner
