// The stamp of a build, which a plug-in and the program must have in common.
#pragma once

#include <string>  // defines the macros of the library of C++ below

#include "ringside/headers.h"  // RINGSIDE_HEADERS, made by cmake/headers_stamp.cmake

#define RINGSIDE_TEXT_OF(number) #number
#define RINGSIDE_TEXT(number) RINGSIDE_TEXT_OF(number)

/// A hash of all headers, the compiler, and the macro that decides the layout of texts and lists.
/// A macro, because each side must have its own: an inline function would be that of the program on
/// both sides.
#ifdef _GLIBCXX_DEBUG
#define RINGSIDE_LIBRARY_OF_CXX "debug"
#else
#define RINGSIDE_LIBRARY_OF_CXX RINGSIDE_TEXT(_GLIBCXX_USE_CXX11_ABI)
#endif
#define RINGSIDE_STAMP \
  "headers " RINGSIDE_HEADERS ", compiler " __VERSION__ ", texts " RINGSIDE_LIBRARY_OF_CXX
