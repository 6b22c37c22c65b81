# Packages of Debian and Ubuntu, made by scripts/package: `ringside`, and `ringside-dev` with headers and libraries.
set(CPACK_PACKAGE_NAME ringside)
set(CPACK_PACKAGE_VENDOR "The Ringside authors")
set(CPACK_PACKAGE_CONTACT "The Ringside authors")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ringside)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS python3)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "compares ways of keeping workers in step in training
Trains one model under every way of keeping N workers in step (parameter
servers, all-reduce among peers, full sharding) on this machine or in a
simulated cluster, and proves what each of them computed.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME ringside-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "ringside (= ${PROJECT_VERSION}), libfmt-dev, \
nlohmann-json3-dev, libdnnl-dev, ocl-icd-opencl-dev, zlib1g-dev, libzmq3-dev, cppzmq-dev, libcereal-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "headers and libraries for schemes of your own
What find_package(Ringside) of CMake finds.")
include(CPack)
