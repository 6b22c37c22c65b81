#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "tests/checkpoint/written_checkpoint.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using testing::complaint;
using ::testing::HasSubstr;

class Disk : public testing::WrittenCheckpoint {
 protected:
  Disk() { fs::create_directory(path()); }

  /// The status with which a process ends that does `act`.
  static int in_child(const std::function<int()>& act) {
    const pid_t child = fork();
    if (child == 0) _exit(act());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// 0 if writing a file of 4 MB says `cause` and leaves nothing, 1 otherwise.
  int refused_with(const std::string& cause) const {
    const OpenFolder checkpoint(path());
    const std::vector<HostRange> large = {{weights, 0, std::vector<float>(1'000'000)}};
    const std::string error = complaint([&] { write_rank_file(checkpoint, 0, large); });
    const bool named =
        error.starts_with(file("rank-00000.safetensors") + ": cannot be written: " + cause);
    return named && fs::is_empty(path()) ? 0 : 1;
  }
};

TEST_F(Disk, ALimitOfFilesLeavesNothing) {
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit small{2'000'000, 2'000'000};
              setrlimit(RLIMIT_FSIZE, &small);
              return refused_with("File too large; files are limited to 2000 KB (ulimit -f)");
            }),
            0);
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(Disk, AFullDiskLeavesNothing) {
  constexpr int not_allowed = 77;
  const int status = in_child([&] {
    // A namespace of its own for mounts, of a user of its own where this one may not mount.
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return not_allowed;
    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("tmpfs", path().c_str(), "tmpfs", 0, "size=2m") != 0) return not_allowed;
    return refused_with("No space left on device");
  });
  if (status == not_allowed) GTEST_SKIP() << "this user may not mount a small disk";
  EXPECT_EQ(status, 0);
}

TEST_F(Disk, AFolderThatIsGoneIsNamed) {
  const OpenFolder checkpoint(path());
  fs::remove(path());
  EXPECT_EQ(complaint([&] {
              write_rank_file(checkpoint, 0, {{weights, 0, {1}}});
            }),
            file("rank-00000.safetensors") + ": cannot be written: its folder has been removed");
  EXPECT_EQ(complaint([&] { write_manifest(checkpoint, empty_manifest()); }),
            file("manifest.json") + ": cannot be written: its folder has been removed");
}

TEST_F(Disk, AFileOfAnEarlierAttemptIsReplaced) {
  const OpenFolder checkpoint(path());
  write_rank_file(checkpoint, 0, {{moment, 0, {1, 2, 3}}});
  const Manifest written = write();
  EXPECT_EQ(verdict(), "nothing");
  EXPECT_EQ(Checkpoint(path()).manifest().files[0].bytes, written.files[0].bytes);
}

}  // namespace
}  // namespace ringside
