// A checkpoint of three ranks that tests write, read and damage.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "core/checkpoint/checkpoint.h"
#include "core/num/random.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::testing {

/// Value `i` of a key: any bits that are no NaN, so that values compare equal to themselves.
inline float saved_value(const StateKey& key, std::int64_t i) {
  const std::uint64_t seed =
      std::hash<std::string>()(key.name) + static_cast<std::uint64_t>(key.replica);
  const auto bits = static_cast<std::uint32_t>(
      random_bits(seed, Stream::synthetic_data, static_cast<std::uint64_t>(i)));
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out == out ? out : static_cast<float>(i);
}

inline HostRange saved_range(const StateKey& key, std::int64_t begin, std::int64_t end) {
  HostRange out{key, begin, {}};
  for (std::int64_t i = begin; i < end; ++i) out.values.push_back(saved_value(key, i));
  return out;
}

class WrittenCheckpoint : public ::testing::Test {
 protected:
  static constexpr std::int64_t step = 120, parameters = 700'000;
  const StateKey weights{"parameters", -1}, moment{"first_moment", -1}, residual{"outer/error", 3};

  static Manifest empty_manifest() {
    Manifest out;
    out.step = step;
    return out;
  }
  /// The ranges of keys are cut at other places in every file, and the first file has three blocks.
  Manifest write(std::int64_t at = step) const {
    const OpenFolder checkpoint = OpenFolder(folder_.path()).inside(checkpoint_name(at));
    Manifest out = empty_manifest();
    out.step = at;
    out.parameters = parameters;
    out.program = "0.1 of a test";
    out.run = {{"scheme", "zero1"}, {"world", 4}, {"model", {{"kind", "gpt"}, {"layers", 2}}}};
    out.scalars = {{"loss_scale", 65536.0}, {"third", 1.0 / 3}, {"good_steps", 7}};
    out.files = {
        write_rank_file(checkpoint, 0,
                        {saved_range(weights, 0, 600'001), saved_range(moment, 90'000, 90'001)}),
        write_rank_file(checkpoint, 1,
                        {saved_range(moment, 0, 90'000),
                         {weights, 5, {}},
                         saved_range(residual, 10, 17),
                         saved_range(weights, 600'001, 600'002)}),
        write_rank_file(checkpoint, 12,
                        {saved_range(weights, 600'002, parameters), saved_range(residual, 0, 10),
                         saved_range(moment, 90'001, 120'000)})};
    write_manifest(checkpoint, out);
    return out;
  }
  std::filesystem::path path(std::int64_t at = step) const {
    return folder_.path() / checkpoint_name(at);
  }
  std::string file(const std::string& name) const { return (path() / name).string(); }
  /// The error of reading everything.
  std::string verdict() const {
    return complaint([&] { Checkpoint(path()).verify(); });
  }

  TemporaryFolder folder_;
};

}  // namespace ringside::testing
