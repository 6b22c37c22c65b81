#include "ps/protocol/server_codes.h"

#include <utility>

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

void ServerCodes::begin_anew(std::size_t index, int worker) {
  if (of_pulls() && !alike_) chunks_[index].pulls[static_cast<std::size_t>(worker)].anew = true;
}

bool ServerCodes::takes_values(std::size_t index, int worker, const Tensor& values) {
  if (alike_) return false;
  Pulls& pulls = chunks_[index].pulls[static_cast<std::size_t>(worker)];
  if (!std::exchange(pulls.anew, false)) return false;
  pulls.followed.begin_with(values);
  return true;
}

void ServerCodes::visit_state(std::size_t index, std::int64_t begin, const StateVisitor& visit) {
  const std::vector<Pulls>& pulls = chunks_[index].pulls;
  for (std::size_t w = 0; w < pulls.size(); ++w)
    visit({.name = std::string(state_of_workers),
           .replica = alike_ ? -1 : static_cast<std::int64_t>(w),
           .begin = begin,
           .values = pulls[w].followed.values(),
           .device = &device_,
           .holder = alike_ ? config_.workers : 1,
           .holders = alike_ ? config_.workers + 1 : 2,
           .begins_as = std::string(state_parameters),
           .of_options = true});
}

std::vector<std::vector<std::uint32_t>> ServerCodes::steps() const {
  std::vector<std::vector<std::uint32_t>> out;
  for (const Of& of : chunks_) {
    std::vector<std::uint32_t>& steps = out.emplace_back();
    for (const Pulls& pulls : of.pulls) steps.push_back(pulls.followed.steps());
  }
  return out;
}

void ServerCodes::restored(const std::vector<std::vector<std::uint32_t>>& steps,
                           const std::vector<std::int64_t>& versions) {
  for (std::size_t index = 0; index < chunks_.size(); ++index)
    for (std::size_t w = 0; w < chunks_[index].pulls.size(); ++w) {
      Pulls& pulls = chunks_[index].pulls[w];
      pulls.followed.set_steps(steps.at(index).at(w));
      pulls.version = versions[index];
      pulls.code = {};
    }
}

}  // namespace ringside::ps
