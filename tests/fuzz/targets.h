// The fuzz targets: each function takes any bytes, and aborts where the program is wrong.
#pragma once

#include <cstddef>
#include <span>

namespace ringside::fuzz {

/// The bytes are a message's header.
void decode(std::span<const std::byte> bytes);
/// The bytes choose a server and a sequence of messages to it.
void server(std::span<const std::byte> bytes);
/// The same, to the master of `dp`.
void master(std::span<const std::byte> bytes);
/// The bytes are a checkpoint: a byte of choices (1: the manifest gets its digests, 2: the file
/// gets them), two bytes with the length of the manifest, the manifest, and a rank's file.
void checkpoint(std::span<const std::byte> bytes);

}  // namespace ringside::fuzz
