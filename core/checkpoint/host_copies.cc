#include "core/checkpoint/host_copies.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_format.h"
#include "core/checkpoint/opened_checkpoint.h"

namespace ringside {
namespace {

using nlohmann::ordered_json;

/// The beginning of a file; the text and the values follow, both at multiples of its size.
struct alignas(64) CopyHeader {
  static constexpr std::uint64_t expected_magic = 0x636f707952696e67;
  static constexpr std::int64_t unfinished = -1;
  std::uint64_t magic;
  std::uint64_t text_bytes, value_bytes;
  std::atomic<std::int64_t> done;
};

constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t to = sizeof(CopyHeader);
  return (bytes + to - 1) / to * to;
}

CopyHeader& header_of(const shm::Mapping& mapping) {
  return *reinterpret_cast<CopyHeader*>(mapping.data());
}

/// Whether the texts and the values that the header tells of lie in the file.
bool makes_sense(const shm::Mapping& mapping) {
  if (mapping.bytes() < sizeof(CopyHeader)) return false;
  const CopyHeader& header = header_of(mapping);
  const std::size_t room = mapping.bytes() - sizeof(CopyHeader);
  return header.magic == CopyHeader::expected_magic && header.text_bytes <= room &&
         header.value_bytes <= room && aligned(header.text_bytes) <= room - header.value_bytes;
}

std::string name_of(const shm::Address& file) {
  return fmt::format("/proc/{}/fd/{}", file.process, file.file);
}

/// The values of one copy.
class CopiedRanges : public OpenedRanges {
 public:
  CopiedRanges(std::shared_ptr<const shm::Mapping> mapping, const CheckpointFile& file)
      : mapping_(std::move(mapping)) {
    const CopyHeader& header = header_of(*mapping_);
    const std::byte* at = mapping_->data() + sizeof(CopyHeader) + aligned(header.text_bytes);
    for (const SavedRange& range : file.ranges) {
      const std::size_t bytes = static_cast<std::size_t>(range.count) * sizeof(float);
      ranges_.emplace_back(at, bytes);
      at += bytes;
    }
  }
  std::span<const std::byte> range(std::size_t index) const override { return ranges_[index]; }

 private:
  std::shared_ptr<const shm::Mapping> mapping_;
  std::vector<std::span<const std::byte>> ranges_;
};

}  // namespace

class HostCopies::Slot {
 public:
  explicit Slot(std::size_t bytes) : file_(shm::File::create(bytes, "state")), mapping_(file_) {
    header_of(mapping_).done = CopyHeader::unfinished;
    header_of(mapping_).magic = CopyHeader::expected_magic;
  }

  std::size_t bytes() const { return mapping_.bytes(); }
  shm::Address address() const {
    return {.process = getpid(), .file = file_.number(), .identity = file_.identity()};
  }

  void write(std::int64_t done, const std::string& text, const std::vector<HostRange>& ranges) {
    CopyHeader& header = header_of(mapping_);
    header.done.store(CopyHeader::unfinished);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::byte* const texts = mapping_.data() + sizeof(CopyHeader);
    std::memcpy(texts, text.data(), text.size());
    std::byte* at = texts + aligned(text.size());
    for (const HostRange& range : ranges) {
      const auto bytes = std::as_bytes(std::span(range.values));
      std::memcpy(at, bytes.data(), bytes.size());
      at += bytes.size();
    }
    header.text_bytes = text.size();
    header.value_bytes = static_cast<std::uint64_t>(at - texts) - aligned(text.size());
    header.done.store(done, std::memory_order_release);
  }

 private:
  shm::File file_;
  shm::Mapping mapping_;
};

HostCopies::HostCopies(ordered_json constant) : constant_(constant.dump()) {}
HostCopies::~HostCopies() = default;

bool HostCopies::write(std::int64_t done, const ordered_json& scalars,
                       const std::vector<HostRange>& ranges) {
  ordered_json list = ordered_json::array();
  std::size_t values = 0;
  for (const HostRange& range : ranges) {
    values += range.values.size() * sizeof(float);
    list.push_back({range.key.name, range.key.replica, range.begin, range.values.size()});
  }
  // The constant part is long, and its text is at hand.
  const std::string text = fmt::format(R"({{"constant":{},"scalars":{},"ranges":{}}})", constant_,
                                       scalars.dump(), list.dump());
  const std::size_t bytes = sizeof(CopyHeader) + aligned(text.size()) + values;
  std::unique_ptr<Slot>& slot = slots_[next_];
  next_ = 1 - next_;
  const bool fits = slot && slot->bytes() >= bytes;
  // Losses make the text longer with every step.
  if (!fits) slot = std::make_unique<Slot>(bytes + text.size() + (std::size_t{1} << 16));
  slot->write(done, text, ranges);
  return !fits;
}

std::vector<shm::Address> HostCopies::files() const {
  std::vector<shm::Address> out;
  for (const auto& slot : slots_)
    if (slot) out.push_back(slot->address());
  return out;
}

HostCopy::HostCopy(const shm::Address& of) : file_(shm::File::of_process(of.process, of.file)) {
  if (file_.identity() != of.identity)
    throw Error("{}: this is no copy of a run's state any more", name_of(of));
  mapping_ = std::make_unique<shm::Mapping>(file_);
  if (mapping_->bytes() < sizeof(CopyHeader) ||
      header_of(*mapping_).magic != CopyHeader::expected_magic)
    throw Error("{}: this is no copy of a run's state", name_of(of));
}
HostCopy::HostCopy(HostCopy&&) noexcept = default;
HostCopy& HostCopy::operator=(HostCopy&&) noexcept = default;
HostCopy::~HostCopy() = default;

std::optional<std::int64_t> HostCopy::done() const {
  const std::int64_t done = header_of(*mapping_).done.load(std::memory_order_acquire);
  return done < 0 || !makes_sense(*mapping_) ? std::nullopt : std::optional(done);
}

shm::Address HostCopy::address() const {
  return {.process = getpid(), .file = file_.number(), .identity = file_.identity()};
}

namespace {
constexpr std::string_view copies_prefix = "copies/";
}

std::string copies_key(const std::string& part, int number) {
  return fmt::format("{}{}/{}", copies_prefix, part, number);
}

std::string part_of_key(const std::string& key) {
  if (!key.starts_with(copies_prefix)) return {};
  return key.substr(copies_prefix.size(), key.rfind('/') - copies_prefix.size());
}

std::string text_of_copies(const std::vector<shm::Address>& files) {
  ordered_json out = ordered_json::array();
  for (const shm::Address& file : files) out.push_back({file.process, file.file, file.identity});
  return out.dump();
}

std::vector<shm::Address> parse_copies(const std::string& value) {
  std::vector<shm::Address> out;
  try {
    for (const auto& file : ordered_json::parse(value))
      out.push_back({.process = file.at(0), .file = file.at(1), .identity = file.at(2)});
  } catch (const nlohmann::json::exception& error) {
    throw Error("'{}' names no copies of a run's state: {}", value, error.what());
  }
  return out;
}

Checkpoint checkpoint_of_copies(const std::vector<shm::Address>& copies) {
  std::vector<std::shared_ptr<const shm::Mapping>> mappings;
  Manifest manifest;
  for (const shm::Address& copy : copies) {
    const shm::File file = shm::File::of_process(copy.process, copy.file);
    const auto mapping = std::make_shared<const shm::Mapping>(file);
    if (file.identity() != copy.identity || !makes_sense(*mapping))
      throw Error("{}: this is no copy of a run's state", name_of(copy));
    const std::int64_t done = header_of(*mapping).done.load(std::memory_order_acquire);
    if (mappings.empty()) manifest.step = done;
    if (done < 0 || done != manifest.step)
      throw Error("{}: this is no copy of the state after {} steps", name_of(copy), manifest.step);
    const char* begin = reinterpret_cast<const char*>(mapping->data() + sizeof(CopyHeader));
    const auto said = ordered_json::parse(begin, begin + header_of(*mapping).text_bytes);
    CheckpointFile& entry = manifest.files.emplace_back();
    entry.name = name_of(copy);
    entry.bytes = static_cast<std::int64_t>(mapping->bytes());
    std::int64_t values = 0;
    for (const auto& range : said.at("ranges")) {
      entry.ranges.push_back({{range.at(0), range.at(1)}, range.at(2), range.at(3)});
      values += entry.ranges.back().count;
      check_range(entry.ranges.back());
    }
    if (static_cast<std::uint64_t>(values) * sizeof(float) != header_of(*mapping).value_bytes)
      throw Error("{}: its ranges have {} values, and the file has others", entry.name, values);
    const ordered_json& constant = said.at("constant");
    if (constant.contains("run")) {
      manifest.run = constant.at("run");
      manifest.parameters = constant.at("parameters");
      manifest.program = constant.at("program");
    }
    for (const auto& [name, value] : said.at("scalars").items())
      if (name == "losses")
        manifest.scalars[name].push_back(value);
      else if (name == "course")
        manifest.scalars["servers"][constant.at("server").get<std::size_t>()] = value;
      else
        manifest.scalars[name] = value;
    mappings.push_back(mapping);
  }
  check_no_overlaps(manifest.files);
  return {"the host's memory", std::move(manifest), [&](const Manifest& listed) {
            return std::make_unique<Checkpoint::Opened>(
                listed, [&listed, mappings](std::size_t file) {
                  return std::make_unique<CopiedRanges>(mappings[file], listed.files[file]);
                });
          }};
}

}  // namespace ringside
