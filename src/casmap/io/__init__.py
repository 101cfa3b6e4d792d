"""Read and write files: photos, DICOM and HEIC files, arrays, atomic writes, file names."""
