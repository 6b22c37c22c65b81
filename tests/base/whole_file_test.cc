#include "core/base/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/base/error.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WholeFileTest : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(WholeFileTest, ReplacesAFileAtTheEndAndKeepsItsMode) {
  folder_.write("a", "old");
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  WholeFile file(path("a"));
  file.write(bytes("ew"), 1);
  file.write(bytes("n"), 0);
  EXPECT_EQ(folder_.read("a"), "old");
  file.publish();
  EXPECT_EQ(folder_.read("a"), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 1u);
}

TEST_F(WholeFileTest, FollowsALinkAndLeavesItALink) {
  folder_.write("a", "old");
  fs::create_symlink("a", path("link"));
  write_whole(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(folder_.read("a"), "new");
}

TEST_F(WholeFileTest, TouchesNoFileOfSomebodyElse) {
  folder_.write("a.part", "mine");
  write_whole(path("a"), "new");
  EXPECT_EQ(folder_.read("a.part"), "mine");
  EXPECT_EQ(files(), 2u);
}

TEST_F(WholeFileTest, LeavesNothingWhereItIsNotPublished) {
  {
    WholeFile file(path("a"));
    file.write(bytes("half"), 0);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(WholeFileTest, LeavesNothingWhereItsProcessIsKilled) {
  const pid_t child = fork();
  if (child == 0) {
    WholeFile file(path("a"));
    file.write(bytes("half"), 0);
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  remove_abandoned_drafts(path("a"));  // for file systems where a draft must have a name
  EXPECT_EQ(files(), 0u);
}

TEST_F(WholeFileTest, RemovesDraftsOfProcessesThatHaveEnded) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const auto draft = [&](pid_t process) {
    return fmt::format("a.{}.{}.part", host, static_cast<int>(process));
  };
  folder_.write(draft(ended), "half");
  folder_.write(draft(getpid()), "half");
  folder_.write("a.elsewhere.1.part", "half");
  remove_abandoned_drafts(path("a"));
  EXPECT_FALSE(fs::exists(path(draft(ended))));
  EXPECT_TRUE(fs::exists(path(draft(getpid()))));
  EXPECT_EQ(files(), 2u);
}

TEST_F(WholeFileTest, NamesTheLimitOfAFile) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{2000, 2000};
    setrlimit(RLIMIT_FSIZE, &small);
    try {
      write_whole(path("a"), std::string(4000, 'x'));
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool named = text.find(
                             "a: cannot be written: File too large; files are limited to 2 "
                             "KB (ulimit -f)") != std::string::npos;
      _exit(named ? 0 : 1);
    }
    _exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 0u);
}

TEST_F(WholeFileTest, NamesAFolderThatIsNotThere) {
  EXPECT_THAT(testing::complaint([&] { write_whole(path("absent/a"), "text"); }),
              HasSubstr("absent/a: cannot be written: No such file or directory"));
}

TEST_F(WholeFileTest, AFileGrowsAtItsEnd) {
  append_to_file(path("a"), "one\n");
  append_to_file(path("a"), "");
  append_to_file(path("a"), "two\n");
  EXPECT_EQ(folder_.read("a"), "one\ntwo\n");
}

TEST_F(WholeFileTest, AFileThatCannotGrowIsNamed) {
  const auto complaint = [](const fs::path& file) {
    return testing::complaint([&] { append_to_file(file, "text"); });
  };
  EXPECT_EQ(complaint("/dev/full"), "/dev/full: cannot be written: No space left on device");
  EXPECT_THAT(complaint(path("absent/a")),
              HasSubstr("absent/a: cannot be written: No such file or directory"));
}

}  // namespace
}  // namespace ringside
