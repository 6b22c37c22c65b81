// Options that all schemes with servers have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "ps/protocol/transport.h"
#include "ps/schemes/placement.h"

namespace ringside::ps {

/// The kind of device of dedicated servers: the workers' kind or a CPU.
enum class ServerDevice : std::uint8_t { same, cpu };
inline constexpr std::string_view server_device_names[] = {"same", "cpu"};
constexpr EnumNames names_of(ServerDevice) { return server_device_names; }

/// Throws Error for a port that is out of range, and for any port but 0 if the transport has no
/// ports. The error names the scheme's option.
void check_port(std::string_view scheme, TransportKind transport, std::int64_t port,
                std::int64_t servers);

/// The addresses at which servers listen with transport tcp, and the keys of those that may
/// connect.
struct Reach {
  std::string address{}, advertise{}, keys{};
};
/// Returns the fields of a scheme's options and of `reach`, which is part of them, by name.
Fields with_reach(Reach& reach, Fields fields);
/// Throws Error that names the scheme's option: for addresses that are none, for any address with
/// another transport than tcp, and for addresses that other machines reach without keys.
void check_reach(std::string_view scheme, TransportKind transport, const Reach& reach);

}  // namespace ringside::ps
