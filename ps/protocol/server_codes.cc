#include "ps/protocol/server_codes.h"

#include "core/device/convert.h"

namespace ringside::ps {

ServerCodes::ServerCodes(Device& device, const ServerConfig& config, bool alike)
    : device_(device), config_(config), alike_(alike) {}

void ServerCodes::add(const Model& model, const Chunk& chunk, const Tensor& values) {
  Of& of = chunks_.emplace_back();
  if (of_pushes())
    of.pushes.emplace(codes_of_pushes(config_.codes, model, chunk.begin, chunk.count, device_, 0));
  if (!of_pulls()) return;
  for (int worker = 0; worker < (alike_ ? 1 : config_.workers); ++worker)
    of.pulls.push_back({FollowedValues(codes_of_pulls(config_.codes, model, chunk.begin,
                                                      chunk.count, device_, worker),
                                       values, device_),
                        {}});
}

FrameShape ServerCodes::form(std::size_t index) const { return chunks_[index].pushes->form(); }

Tensor ServerCodes::pushed(std::size_t index, const Tensor& code) const {
  const ChunkCodes& codes = *chunks_[index].pushes;
  const Tensor values = device_.tensor({codes.count()}, MemoryKind::communication);
  codes.decode(code, values);
  return converted(device_, values, config_.dtype, MemoryKind::communication);
}

Tensor ServerCodes::pulled(std::size_t index, int worker, const Tensor& values,
                           std::int64_t version) {
  Pulls& pulls = chunks_[index].pulls[alike_ ? 0 : static_cast<std::size_t>(worker)];
  if (!alike_) return pulls.followed.follow(values);
  if (pulls.version != version) {
    pulls.code = pulls.followed.follow(values);
    pulls.version = version;
  }
  return pulls.code;
}

}  // namespace ringside::ps
