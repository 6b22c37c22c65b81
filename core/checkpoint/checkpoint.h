// The files of checkpoints.
//
// A folder of checkpoints has one folder for each of them, "step-0000000120" after 120 steps, with
// one safetensors file for each rank that holds something, "rank-00003.safetensors" (of a parameter
// server "rank-00003-server.safetensors"), and manifest.json. The manifest is written last: a
// folder without it is no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/whole_file.h"
#include "core/interchange/stored.h"

namespace ringside {

/// A flat range of fp32 values of a run's state, wherever ranks keep it. `name` says what the
/// values are: "parameters", "first_moment", or a scheme's own state. `replica` is the worker whose
/// own values they are; -1: they are those of the whole run. `begin` is the first one's number
/// among the values of this name, in the model's order of parameters.
struct StateKey {
  std::string name;
  std::int64_t replica = -1;
  bool operator==(const StateKey&) const = default;
  auto operator<=>(const StateKey&) const = default;
};
struct SavedRange {
  StateKey key;
  std::int64_t begin = 0, count = 0;
};

/// One rank's file, as the manifest lists it.
struct CheckpointFile {
  std::string name;
  std::int64_t bytes = 0;
  /// XXH3-128 of each block of digest_block bytes, in order; the last block may be shorter.
  std::vector<std::string> digests;
  std::vector<SavedRange> ranges;
};
inline constexpr std::size_t digest_block = std::size_t{1} << 20;

/// All that a checkpoint says about itself. There is no state of random numbers: they are functions
/// of the seed and of counters, such as the number of the step.
struct Manifest {
  std::int64_t step = 0;           // steps done
  std::int64_t parameters = 0;     // of the model
  std::string program;             // the version and commit that wrote it
  nlohmann::ordered_json run;      // the run, of which the reader compares what must agree
  nlohmann::ordered_json scalars;  // state that is no range of values, such as the loss scale
  std::vector<CheckpointFile> files;
};
nlohmann::ordered_json to_json(const CheckpointFile& file);
CheckpointFile checkpoint_file_from_json(const nlohmann::json& in);

/// Values to be written, in the host's memory.
struct HostRange {
  StateKey key;
  std::int64_t begin = 0;
  std::vector<float> values;
};

/// What a rank does for the run. One that both trains and serves has a file of each part.
enum class RankPart : std::uint8_t { worker, server };

std::string checkpoint_name(std::int64_t step);
std::string rank_file_name(int rank, RankPart part = RankPart::worker);

/// Writes a rank's file under its name, once all of it is on the disk. Blocks; throws Error with
/// the system's cause, and then leaves nothing behind. For any thread.
CheckpointFile write_rank_file(const OpenFolder& checkpoint, int rank,
                               const std::vector<HostRange>& ranges,
                               RankPart part = RankPart::worker);
/// The first of the manifest's files that the folder does not show, or not with all of its bytes;
/// empty if it shows all. A folder of several hosts may show what another one wrote a moment later.
std::string missing_file(const OpenFolder& checkpoint, const Manifest& manifest);
/// The same as write_rank_file() for the manifest, which makes the checkpoint whole. Throws Error
/// if the ranges of its files overlap.
void write_manifest(const OpenFolder& checkpoint, const Manifest& manifest);

/// The whole checkpoints of a folder, by their number of steps; none if there is no such folder.
std::map<std::int64_t, std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);
/// Removes the oldest whole checkpoints until `keep` are left (each loses its manifest first), and
/// those that were never finished and have fewer steps than the newest whole one. Other files stay.
void remove_old_checkpoints(const OpenFolder& folder, std::int64_t keep);

/// A checkpoint that is read. Its files stay mapped as long as it lives. All errors name the file,
/// and the byte if its content is at fault.
class Checkpoint {
 public:
  /// Reads the manifest, and compares the sizes of all files. Throws Error for what is not whole or
  /// makes no sense: nothing in the files is trusted.
  explicit Checkpoint(const std::filesystem::path& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;

  /// Where its files lie (core/checkpoint/opened_checkpoint.h).
  struct Opened;
  using Open = std::function<std::unique_ptr<Opened>(const Manifest&)>;
  /// Of files that are no folder; `name` stands for them in errors.
  Checkpoint(std::string name, Manifest manifest, const Open& open);

  const Manifest& manifest() const { return *manifest_; }
  const std::filesystem::path& path() const { return path_; }
  /// The names (and replicas) of the state that it has, each with the number of its values.
  std::map<StateKey, std::int64_t> state() const;
  /// Copies elements [begin, begin + out.size()), from as many files as they lie in; compares the
  /// digests of each file when it is first read from. Throws Error if a value is missing.
  void read(const StateKey& key, std::int64_t begin, std::span<float> out) const;
  /// Compares the digests of all files. Throws Error with the first file and byte that differ.
  void verify() const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<Manifest> manifest_;
  std::unique_ptr<Opened> opened_;
};

}  // namespace ringside
