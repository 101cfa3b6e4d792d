"""What others read: mappings as ONNX files, maps as annotations."""
