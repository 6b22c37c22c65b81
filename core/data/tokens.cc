#include "core/data/tokens.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/data/file_content.h"
#include "core/data/file_format.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "token files are read as they are");

constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

struct TokenFormat {
  std::int32_t magic, version;
  std::size_t token_bytes;
};
constexpr TokenFormat formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/// Checks a file's header. Returns the number of the file's tokens and the bytes of a token.
std::pair<std::int64_t, std::size_t> read_header(const RegularFile& file) {
  refuse_other_formats(file);
  if (file.size() < header_bytes)
    throw bad_file(file.path(), file.size(),
                   fmt::format("the file ends within its header of {} bytes", header_bytes));
  std::int32_t header[3];
  file.read(0, std::as_writable_bytes(std::span(header)));
  const auto* format = std::find_if(std::begin(formats), std::end(formats),
                                    [&](const TokenFormat& f) { return f.magic == header[0]; });
  if (format == std::end(formats))
    throw bad_file(file.path(), 0,
                   fmt::format("magic number {}, but token files have {} (uint16) or {} (uint32)",
                               header[0], formats[0].magic, formats[1].magic),
                   "make it with llm.c's dev/data");
  if (header[1] != format->version)
    throw bad_file(
        file.path(), 4,
        fmt::format("version {}, but only version {} can be read", header[1], format->version),
        "make it with llm.c's dev/data");
  const std::int64_t tokens = header[2];
  const auto promised = static_cast<std::int64_t>(header_bytes) +
                        tokens * static_cast<std::int64_t>(format->token_bytes);
  if (tokens < 0 || static_cast<std::int64_t>(file.size()) != promised)
    throw bad_file(file.path(), 8,
                   fmt::format("the header promises {} tokens of {} bytes each, so the file should "
                               "have {} bytes, but it has {}",
                               tokens, format->token_bytes, promised, file.size()));
  return {tokens, format->token_bytes};
}

class TokenDataset final : public Dataset {
 public:
  TokenDataset(const std::vector<fs::path>& paths, std::int64_t context, std::int64_t vocabulary,
               Task task, Split split, double holdout)
      : context_(context), vocabulary_(vocabulary), task_(task) {
    if (context < 1)
      throw Error("model.context = {} is too small; it has to be 1 or more", context);
    for (const fs::path& path : paths) {
      RegularFile file(path);
      const auto [tokens, token_bytes] = read_header(file);
      if (files_.files() > 0 && token_bytes != token_bytes_)
        throw bad_file(path, 0,
                       fmt::format("this file's tokens have {} bytes, but the tokens of {} have {}",
                                   token_bytes, files_.file(0).path().string(), token_bytes_),
                       "name files of one kind");
      token_bytes_ = token_bytes;
      files_.append(FileContent(std::move(file)), tokens, header_bytes);
    }
    samples_ = samples_of(files_.items(), split, holdout);
    if (samples_.size <= context)
      throw Error(
          "data: the {} part of {} has {} tokens, but one sample needs {} tokens; give more files, "
          "or change model.context or data.holdout",
          split == Split::training ? "training" : "held-out",
          paths.empty() ? "no file" : paths.front().string(), samples_.size, context + 1);
  }

  std::int64_t size() const override { return samples_.size - context_; }
  Shape input_shape() const override { return {context_}; }
  DType input_dtype() const override { return DType::i32; }
  Shape target_shape() const override { return {task_ == Task::every_token ? context_ : 1}; }

  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    std::vector<std::int32_t> window(static_cast<std::size_t>(context_) + 1);
    auto out = std::span(window);
    each_piece(samples_.begin + sample, context_ + 1, [&](const FileRow::Position& place) {
      const auto count = static_cast<std::size_t>(place.left);
      if (token_bytes_ == 2)
        copy<std::uint16_t>(place, out.first(count));
      else
        copy<std::uint32_t>(place, out.first(count));
      out = out.subspan(count);
    });
    std::memcpy(input.data(), window.data(), input.size());
    std::copy(window.end() - static_cast<std::ptrdiff_t>(target.size()), window.end(),
              target.begin());
  }

  void check() const override {
    constexpr std::int64_t at_once = 1 << 16;
    if (token_bytes_ == 2 && vocabulary_ > std::numeric_limits<std::uint16_t>::max()) return;
    each_piece(samples_.begin, samples_.size, [&](FileRow::Position place) {
      for (std::int64_t left = place.left; left > 0; left -= at_once, place.item += at_once) {
        place.left = std::min(left, at_once);
        if (token_bytes_ == 2)
          look_at<std::uint16_t>(place);
        else
          look_at<std::uint32_t>(place);
      }
    });
  }

 private:
  /// Calls `use` for each file's part of the tokens [begin, begin + count).
  template <class Use>
  void each_piece(std::int64_t begin, std::int64_t count, const Use& use) const {
    while (count > 0) {
      FileRow::Position place = files_.find(begin);
      place.left = std::min(place.left, count);
      use(place);
      begin += place.left;
      count -= place.left;
    }
  }

  template <class Token>
  std::vector<Token> tokens(const FileRow::Position& place) const {
    std::vector<Token> out(static_cast<std::size_t>(place.left));
    files_.read(place.file, static_cast<std::size_t>(place.item) * sizeof(Token),
                std::as_writable_bytes(std::span(out)));
    return out;
  }

  template <class Token>
  void copy(const FileRow::Position& place, std::span<std::int32_t> out) const {
    const std::vector<Token> from = tokens<Token>(place);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (static_cast<std::int64_t>(from[i]) >= vocabulary_) refuse<Token>(place, i, from[i]);
      out[i] = static_cast<std::int32_t>(from[i]);
    }
  }

  /// Checks the largest token first, in a loop that compilers vectorise; only if it is too large,
  /// looks for the first token that is too large.
  template <class Token>
  void look_at(const FileRow::Position& place) const {
    const std::vector<Token> from = tokens<Token>(place);
    Token largest = 0;
    for (const Token token : from) largest = std::max(largest, token);
    if (static_cast<std::int64_t>(largest) < vocabulary_) return;
    std::vector<std::int32_t> unused(static_cast<std::size_t>(place.left));
    copy<Token>(place, unused);
  }

  template <class Token>
  [[noreturn]] void refuse(const FileRow::Position& place, std::size_t i, Token token) const {
    throw bad_file(files_.file(place.file).path(),
                   header_bytes + (static_cast<std::size_t>(place.item) + i) * sizeof(Token),
                   fmt::format("token {} is beyond the vocabulary of {}", token, vocabulary_),
                   "raise model.vocabulary (GPT-2 has 50257, Llama 3 128256)");
  }

  std::int64_t context_, vocabulary_;
  Task task_;
  std::size_t token_bytes_ = 0;
  FileRow files_;  // its items are tokens
  SampleRange samples_;
};

}  // namespace

std::unique_ptr<Dataset> token_dataset(const std::vector<fs::path>& files, std::int64_t context,
                                       std::int64_t vocabulary, Task task, Split split,
                                       double holdout) {
  return std::make_unique<TokenDataset>(files, context, vocabulary, task, split, holdout);
}

}  // namespace ringside
