#include "ps/transport/zmq/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::ps {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// The error of `work` while no file may grow.
template <class Work>
std::string with_full_disk(Work work) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none{0, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  const std::string said = complaint(work);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  return said;
}

class KeyFiles : public ::testing::Test {
 protected:
  testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() / "keys";
};

TEST_F(KeyFiles, OnlyTheirUserCanReadThem) {
  write_keys(folder_, 3);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    names.push_back(entry.path().filename());
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("server.secret", "server.public",
                                                     "worker-0.secret", "worker-0.public",
                                                     "worker-1.secret", "worker-1.public",
                                                     "worker-2.secret", "worker-2.public"));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

TEST_F(KeyFiles, AnEmptyFolderIsClosedToOthers) {
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms(0755));
  write_keys(folder_, 1);
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

TEST_F(KeyFiles, AFolderWithOtherFilesIsNotSharedWithOthers) {
  fs::create_directory(folder_);
  temporary_.write("keys/notes.txt", "mine");
  fs::permissions(folder_, fs::perms(0755));
  EXPECT_EQ(complaint([&] { write_keys(folder_, 1); }), "others may look into the folder " +
                                                            folder_ +
                                                            " (mode 755), and it is not empty; say "
                                                            "`chmod 700 " +
                                                            folder_ + "`, or name a new folder");
  EXPECT_FALSE(fs::exists(folder_ + "/server.secret"));
  fs::permissions(folder_, fs::perms(0700));
  EXPECT_NO_THROW(write_keys(folder_, 1));
}

TEST_F(KeyFiles, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directory(folder_);
  constexpr uid_t nobody = 65534;
  ASSERT_EQ(chown(folder_.c_str(), nobody, nobody), 0);
  EXPECT_THAT(complaint([&] { write_keys(folder_, 1); }), HasSubstr("is another user's"));
}

TEST_F(KeyFiles, AllAreDifferentAndReadAsTheyWereWritten) {
  write_keys(folder_, 1);
  const KeyPair server = read_key_pair(folder_, server_key);
  const KeyPair worker = read_key_pair(folder_, worker_key(0));
  EXPECT_EQ(server.public_key, read_public_key(folder_, server_key));
  EXPECT_NE(server.public_key, worker.public_key);
  EXPECT_NE(server.secret_key, worker.secret_key);
}

TEST_F(KeyFiles, TellWhoIsAMember) {
  write_keys(folder_, 2);
  const auto workers = read_members(folder_, 2, false), all = read_members(folder_, 2, true);
  EXPECT_EQ(workers.size(), 2u);
  EXPECT_EQ(all.size(), 3u);
  for (const auto& [key, member] : workers) EXPECT_EQ(all.at(key), member);
  fs::copy_file(folder_ + "/worker-0.public", folder_ + "/server.public",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(read_members(folder_, 2, false), workers);
  EXPECT_THAT(complaint([&] { read_members(folder_, 2, true); }),
              HasSubstr("worker-0 and server have the same key"));
}

TEST_F(KeyFiles, NoneIsOverwritten) {
  write_keys(folder_, 1);
  const KeyPair before = read_key_pair(folder_, worker_key(0));
  fs::remove(folder_ + "/server.secret");
  EXPECT_THAT(complaint([&] { write_keys(folder_, 2); }),
              AllOf(HasSubstr("server.public"), HasSubstr("not overwritten")));
  EXPECT_FALSE(fs::exists(folder_ + "/server.secret")) << "nothing was written";
  EXPECT_EQ(read_key_pair(folder_, worker_key(0)).secret_key, before.secret_key);
}

TEST_F(KeyFiles, ASecretThatOthersCanReadIsRefused) {
  write_keys(folder_, 1);
  fs::permissions(folder_ + "/server.secret", fs::perms::group_read, fs::perm_options::add);
  EXPECT_THAT(complaint([&] { read_key_pair(folder_, server_key); }),
              AllOf(HasSubstr("server.secret is not secret"), HasSubstr("mode 640"),
                    HasSubstr("chmod 600")));
  fs::permissions(folder_ + "/server.public", fs::perms::others_read, fs::perm_options::add);
  EXPECT_EQ(read_public_key(folder_, server_key).size(), 40u) << "a public key may be read";
}

TEST_F(KeyFiles, AKeyThatOthersCanChangeIsRefused) {
  write_keys(folder_, 1);
  const std::string path = folder_ + "/server.public";
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(complaint([&] { read_public_key(folder_, server_key); }),
              AllOf(HasSubstr("server.public can be written by other users"), HasSubstr("mode 602"),
                    HasSubstr("chmod 644")));
  fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  constexpr uid_t nobody = 65534;
  ASSERT_EQ(chown(path.c_str(), nobody, nobody), 0);
  EXPECT_THAT(complaint([&] { read_public_key(folder_, server_key); }),
              AllOf(HasSubstr("server.public belongs to user 65534"), HasSubstr("of your own")));
}

TEST_F(KeyFiles, KeysOfTwoPairsAreRefused) {
  write_keys(folder_, 1);
  fs::copy(folder_ + "/worker-0.public", folder_ + "/server.public",
           fs::copy_options::overwrite_existing);
  EXPECT_THAT(complaint([&] { read_key_pair(folder_, server_key); }),
              AllOf(HasSubstr("server.public and"), HasSubstr("server.secret are no pair"),
                    HasSubstr("`ringside keys`")));
}

TEST_F(KeyFiles, AFailureLeavesNoKeysBehind) {
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  fs::create_symlink("nowhere", folder_ + "/worker-1.public");
  EXPECT_THAT(complaint([&] { write_keys(folder_, 2); }), HasSubstr("cannot write the key"));
  fs::remove(folder_ + "/worker-1.public");
  EXPECT_TRUE(fs::is_empty(folder_));
  fs::remove(folder_);
  EXPECT_THAT(with_full_disk([&] { write_keys(folder_, 2); }), HasSubstr("server.secret"));
  EXPECT_FALSE(fs::exists(folder_)) << "which the call had made";
}

TEST_F(KeyFiles, WhatIsNoKeyIsRefused) {
  EXPECT_THAT(complaint([&] { read_public_key(folder_, server_key); }),
              AllOf(HasSubstr("server.public"), HasSubstr("ringside keys")));
  write_keys(folder_, 1);
  for (const char* text : {"", "short", "forty characters that are not of Z85 \x01\x02\x03",
                           "0123456789012345678901234567890123456789 and more"}) {
    temporary_.write("keys/server.public", text);
    EXPECT_THAT(complaint([&] { read_public_key(folder_, server_key); }), HasSubstr("is no key"))
        << text;
  }
  fs::remove(folder_ + "/server.public");
  fs::create_symlink(folder_ + "/worker-0.public", folder_ + "/server.public");
  EXPECT_THAT(complaint([&] { read_public_key(folder_, server_key); }), HasSubstr("cannot read"))
      << "a link may lead anywhere";
}

}  // namespace
}  // namespace ringside::ps
