#include "core/observe/parameter_digest.h"

#include <algorithm>

namespace ringside {
namespace {

constexpr std::int64_t most_blocks = 256;
constexpr std::size_t digits = 8;

}  // namespace

std::int64_t elements_of_block(std::int64_t parameters) {
  return std::max<std::int64_t>(1, (parameters + most_blocks - 1) / most_blocks);
}

ParameterDigest::ParameterDigest(std::int64_t parameters, std::size_t element_bytes)
    : block_bytes_(static_cast<std::size_t>(elements_of_block(parameters)) * element_bytes) {}

void ParameterDigest::add(std::span<const std::byte> bytes) {
  whole_.update(bytes);
  while (!bytes.empty()) {
    if (!block_) block_.emplace();
    const auto some = bytes.first(std::min(bytes.size(), block_bytes_ - in_block_));
    block_->update(some);
    in_block_ += some.size();
    bytes = bytes.subspan(some.size());
    if (in_block_ == block_bytes_) blocks();
  }
}

const std::string& ParameterDigest::blocks() {
  if (block_) blocks_ += block_->digest().substr(0, digits);
  block_.reset();
  in_block_ = 0;
  return blocks_;
}

}  // namespace ringside
