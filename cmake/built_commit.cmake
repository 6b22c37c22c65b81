# The commit from which the program is built, found when it is built:
#
#   cmake -DSOURCE=FOLDER -DOUTPUT=FILE -P built_commit.cmake
#
# writes the C++ source FILE that defines built_commit(), and leaves FILE alone if the commit is the
# same. "-dirty" stands behind the commit if a source of the program has been changed or added
# since; the commit is "unknown" if FOLDER does not belong to a git repository.
set(built_from CMakeLists.txt CMakePresets.json cmake core peer ps "experiments/*.cc" "experiments/*.h"
    experiments/runner/report/page experiments/python/ringside_peers "experiments/*.proto"
    scripts/report-figures)
find_program(GIT git)

function(ask_git answer)
  set(${answer} NOTFOUND PARENT_SCOPE)
  if(NOT GIT)
    return()
  endif()
  execute_process(COMMAND ${GIT} --no-optional-locks -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE text
                  RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(${answer} "${text}" PARENT_SCOPE)
  endif()
endfunction()

# A copy without .git may lie within the repository of something else.
ask_git(own ls-files --error-unmatch CMakeLists.txt)
ask_git(commit rev-parse --verify HEAD)
if(NOT own OR NOT commit)
  set(commit unknown)
else()
  ask_git(changes status --porcelain -- ${built_from})
  if(NOT changes STREQUAL "")
    string(APPEND commit -dirty)
  endif()
endif()

file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "experiments/tools/cli/built_commit.h"

namespace ringside::tools::cli {

std::string_view built_commit() { return "@commit@"; }

}  // namespace ringside::tools::cli
]] @ONLY)
