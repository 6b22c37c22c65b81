#include "core/shm/peer_memory.h"

#include "core/base/error.h"

namespace ringside::shm {

Address PeerMemory::publish(const Tensor& tensor) {
  if (tensor.bytes() == 0) return {};
  const SymmetricAddress address = tensor.buffer()->address();
  if (address.file < 0)
    throw Error(
        "peers cannot see a tensor of kind {}; allocate it as parameter, gradient or "
        "communication",
        name_of(tensor.buffer()->kind()));
  std::lock_guard lock(mutex_);
  auto known = own_.find(address.file);
  if (known == own_.end())
    known = own_.emplace(address.file, File::identity_of(address.file)).first;
  return {process_, address.file, known->second, address.offset + tensor.byte_offset(),
          tensor.bytes()};
}

namespace {

std::shared_ptr<Mapping> mapping_of(const Address& address) {
  const File file = File::of_process(address.process, address.file);
  if (file.identity() != address.identity)
    throw Error("shared memory: file {} of process {} is gone", address.file, address.process);
  return std::make_shared<Mapping>(file);
}

/// Peers may say anything, so nothing here may overflow.
bool holds(const Mapping& mapping, const Address& address) {
  return address.bytes <= mapping.bytes() && address.offset <= mapping.bytes() - address.bytes;
}

std::shared_ptr<std::byte> place_in(const std::shared_ptr<Mapping>& mapping,
                                    const Address& address) {
  if (!holds(*mapping, address))
    throw Error(
        "shared memory: file {} of process {} has {} bytes, but a tensor in it has {} bytes from "
        "byte {} on",
        address.file, address.process, mapping->bytes(), address.bytes, address.offset);
  return {mapping, mapping->data() + address.offset};
}

}  // namespace

std::shared_ptr<std::byte> PeerMemory::map(const Address& address) {
  return address.bytes == 0 ? nullptr : place_in(mapping_of(address), address);
}

std::shared_ptr<std::byte> PeerMemory::find(const Address& address) {
  if (address.bytes == 0) return nullptr;
  std::lock_guard lock(mutex_);
  const std::tuple file(address.process, address.file, address.identity);
  auto known = files_.find(file);
  if (known == files_.end()) known = files_.emplace(file, mapping_of(address)).first;
  if (!holds(*known->second, address)) known->second = mapping_of(address);
  return place_in(known->second, address);
}

}  // namespace ringside::shm
