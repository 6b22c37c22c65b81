// Variables by which OpenMP libraries bind threads to cores.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ringside::tools::cli {

/// Takes these variables out of `environment`, a list of "NAME=value" that ends with null, as the
/// system hands it to a program. Returns how many it took, whose texts are then in `taken`.
///
/// A library that finds them binds the process's first thread to one core as soon as the library is
/// loaded, and all processes that are started later inherit that core. So this function is for the
/// time before libraries begin: it neither allocates memory nor throws. OMP_PROC_BIND=false keeps
/// libraries from binding anything, and then nothing is taken.
std::size_t take_thread_binding(char** environment, std::span<const char*> taken);

/// One line about variables that were taken, for a process that may use `cores` cores.
std::string thread_binding_text(const std::vector<std::string>& taken, int cores);

}  // namespace ringside::tools::cli
