// Keys by which servers and workers on different machines authenticate each other.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ringside::ps {

/// Keys of CURVE (Bernstein; ZeroMQ RFC 26) as text of 40 characters (Z85).
struct KeyPair {
  std::string public_key, secret_key;
};

/// The owner of the keys: the servers have one pair together, every worker has its own. Each pair
/// is two files of a folder, NAME.public and NAME.secret.
inline constexpr const char* server_key = "server";
std::string worker_key(int worker);

/// Draws new pairs as text, which all members of a run may know: they trust each other.
std::string draw_keys(int workers);

/// The keys of a run that one of its processes needs, from a folder of write_keys() or from the
/// text of draw_keys().
class Keyring {
 public:
  /// Throws Error for a folder or a key that cannot be read.
  Keyring(const std::string& folder, const std::string& drawn);
  /// `name` is server_key or a worker_key(). Throw Error as read_key_pair() and read_public_key().
  KeyPair pair(const std::string& name) const;
  std::string public_key(const std::string& name) const;
  /// As read_members().
  std::map<std::string, int> members(int workers, bool servers) const;

 private:
  std::string folder_;
  std::vector<KeyPair> drawn_;  // of the servers, then by worker; empty: the folder's
};

/// Draws new pairs for the servers and for `workers` workers, and writes them to the folder, which
/// is made if it is not there. Only this user can look into the folder and read the files. Throws
/// Error if a file is there already or cannot be written, if the folder is another user's, or if
/// others may look into it and it is not empty; then no file has changed and none has been made.
void write_keys(const std::string& folder, int workers);

/// Throw Error that names the file and what to do if it cannot be read, has no key, belongs to
/// another user than this one or root, can be written by others, or, for a secret, if others can
/// read it; for a pair, if its two keys do not belong together.
KeyPair read_key_pair(const std::string& folder, const std::string& name);
std::string read_public_key(const std::string& folder, const std::string& name);

/// The owners of the public keys (32 bytes) of workers 0 to `workers` - 1; with `servers` also the
/// key of the servers, as that of worker number `workers`. Throws Error if two have the same key.
std::map<std::string, int> read_members(const std::string& folder, int workers, bool servers);

}  // namespace ringside::ps
