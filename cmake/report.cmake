# The page of report.html: its files, and the script that draws it, are built into the program, so that
# the program can stand alone. Without the script (scripts/vl-convert) everything works but report.html,
# and `compare` says what to do.
set(page ${PROJECT_SOURCE_DIR}/experiments/runner/report/page)
# Both in the order in which the page has them.
set(page_scripts dom tables figures controls appendix report)
set(page_figures speed-up sweep-numbers sweep-names step-time mfu bytes memory loss-samples loss-seconds
    loss-bytes time-to-loss sweep-loss staleness predicted-step predicted-memory published)

# The place where scripts/setup puts it. A build in another folder also finds the package for Python
# next to its program.
set(vl_convert ${PROJECT_SOURCE_DIR}/build/vl-convert)
find_file(RINGSIDE_VEGA vega.js PATHS ${vl_convert} NO_DEFAULT_PATH
          DOC "Vega, Vega-Lite and Vega-Embed as one script")
if(NOT RINGSIDE_VEGA)
  message(STATUS "Left out: report.html, whose drawing library is missing; scripts/setup fetches it")
elseif(NOT EXISTS ${PROJECT_BINARY_DIR}/vl-convert)
  file(CREATE_LINK ${vl_convert} ${PROJECT_BINARY_DIR}/vl-convert SYMBOLIC)
endif()

enable_language(ASM)
set(parts_source ${PROJECT_BINARY_DIR}/page_parts.S)
set(parts_files)
set(parts "        .section .rodata\n")
# part(NAME LINE...): the output of the lines lies between ringside_page_NAME and
# ringside_page_NAME_end.
macro(part name)
  string(APPEND parts "        .global ringside_page_${name}, ringside_page_${name}_end\n"
         "ringside_page_${name}:\n" ${ARGN} "ringside_page_${name}_end:\n")
endmacro()
# Sets `line` to the directive that includes the file.
macro(embed file)
  list(APPEND parts_files ${file})
  set(line "        .incbin \"${file}\"\n")
endmacro()

embed(${page}/report.html)
part(template ${line})
embed(${page}/report.css)
part(style ${line})
embed(${page}/theme.json)
part(theme ${line})
set(lines)
foreach(name IN LISTS page_scripts)
  embed(${page}/${name}.js)
  string(APPEND lines ${line})
endforeach()
part(script ${lines})
# One JSON object. (34 is a quotation mark, which would have to survive three parsers.)
set(lines)
set(between "{")
foreach(name IN LISTS page_figures)
  embed(${page}/figures/${name}.json)
  string(APPEND lines "        .ascii \"${between}\"\n        .byte 34\n        .ascii \"${name}\"\n"
         "        .byte 34\n        .ascii \":\"\n${line}")
  set(between ",")
endforeach()
part(figures ${lines} "        .ascii \"}\"\n")
embed(${PROJECT_SOURCE_DIR}/scripts/report-figures)
part(figures_program ${line})
if(RINGSIDE_VEGA)
  embed(${RINGSIDE_VEGA})
  part(vega ${line})
else()
  part(vega)
endif()
string(APPEND parts "        .section .note.GNU-stack,\"\",%progbits\n")

file(CONFIGURE OUTPUT ${parts_source} CONTENT "${parts}" @ONLY)
set_source_files_properties(${parts_source} PROPERTIES OBJECT_DEPENDS "${parts_files}")
target_sources(runner_report PRIVATE ${parts_source})
