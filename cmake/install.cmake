# What `cmake --install` puts into a system: the program, libloam as one static and one shared
# library, the header, the manual page and a pkg-config file.
include(GNUInstallDirs)

# The libraries of the folders are for our own programs; others get them as one.
set(objects "")
set(needed "")
foreach(folder IN LISTS LOAM_FOLDERS)
  if(TARGET loam_${folder})
    list(APPEND objects $<TARGET_OBJECTS:loam_${folder}>)
    list(APPEND needed ${LOAM_DEPS_${folder}})
  endif()
endforeach()
list(REMOVE_DUPLICATES needed)

add_library(libloam_static STATIC ${objects})
add_library(libloam_shared SHARED ${objects})
foreach(library libloam_static libloam_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME loam LINKER_LANGUAGE C)
  target_link_libraries(${library} PRIVATE loam_flags ${needed})
  target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR}/include)
endforeach()
if(NOT APPLE)
  target_link_options(libloam_shared PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/loam.map)
endif()
set_target_properties(libloam_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)

set(LOAM_PC_REQUIRES "jansson yaml-0.1 libxxhash")
set(LOAM_PC_LIBS "")
if(found STREQUAL onednn)
  set(LOAM_PC_LIBS "-ldnnl")
  if(OpenMP_C_FOUND)
    string(APPEND LOAM_PC_LIBS " ${OpenMP_C_FLAGS}")
  endif()
elseif(found STREQUAL openblas)
  string(APPEND LOAM_PC_REQUIRES " openblas")
elseif(found STREQUAL accelerate)
  set(LOAM_PC_LIBS "-framework Accelerate")
endif()
configure_file(cmake/loam.pc.in ${PROJECT_BINARY_DIR}/loam.pc @ONLY)

install(TARGETS loam libloam_static libloam_shared
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/loam.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/loam.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/loam.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
