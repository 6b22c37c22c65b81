# A hash of all headers of core, peer and ps, found when the program is built:
#
#   cmake -DSOURCE=FOLDER -DOUTPUT=FILE -P headers_stamp.cmake
#
# writes the header FILE that defines RINGSIDE_HEADERS, and leaves FILE alone if the hash is the same.
file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/core/*.h ${SOURCE}/peer/*.h ${SOURCE}/ps/*.h)
list(SORT headers)
set(all)
foreach(header IN LISTS headers)
  file(SHA256 ${SOURCE}/${header} hash)
  string(APPEND all "${header} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once
#define RINGSIDE_HEADERS \"${hash}\"
")
