"""Photos and files, in and out: images, DICOM, grey levels, files that appear whole or not at all."""
