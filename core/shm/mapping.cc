#include "core/shm/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace ringside::shm {
namespace {

struct stat status_of(int number) {
  struct stat status {};
  if (fstat(number, &status) != 0) throw Error("shared memory: fstat: {}", std::strerror(errno));
  return status;
}

}  // namespace

File File::create(std::size_t bytes, const char* name) {
  File file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number_ < 0 || ftruncate(file.number_, static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.number_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw Error("shared memory: cannot make a file of {} bytes: {}", bytes, std::strerror(errno));
  return file;
}

File File::of_process(pid_t process, int number) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, number);
  File file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.number_ < 0)
    throw Error(
        "shared memory: cannot open {}: {}; ranks of a group must be processes of one "
        "user on one host",
        path, std::strerror(errno));
  const int seals = fcntl(file.number_, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw Error(
        "shared memory: {} could be cut while it is read; start all ranks with the same program",
        path);
  return file;
}

File::File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

File::~File() {
  if (number_ >= 0) close(number_);
}

std::size_t File::bytes() const { return static_cast<std::size_t>(status_of(number_).st_size); }

std::uint64_t File::identity_of(int number) { return status_of(number).st_ino; }

Mapping::Mapping(const File& file) : bytes_(file.bytes()) {
  void* data =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.number(), 0);
  if (data == MAP_FAILED)
    throw Error("shared memory: cannot map {} bytes: {}", bytes_, std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
}

Mapping::~Mapping() { munmap(data_, bytes_); }

}  // namespace ringside::shm
